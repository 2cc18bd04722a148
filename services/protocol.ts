import type { PrivatePlan } from './resolve';
import type { ServiceName } from './service';

/** What can be done to a service that exists. */
export type Action = 'start' | 'stop' | 'kill';

/** What a run asks of its supervisor. There is no request to end: the end of the channel is that request. */
export type Request =
  | { readonly action: 'create'; readonly plan: PrivatePlan; readonly durable: boolean }
  | { readonly action: Action; readonly name: ServiceName };

export interface NumberedRequest {
  readonly id: number;
  readonly request: Request;
}

/** The URL of the service, or why there is none. */
export type Response =
  { readonly id: number; readonly url: string } | { readonly id: number; readonly error: string };
