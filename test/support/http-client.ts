import { request, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http';

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** As they came: names in their own case, repeated ones repeated. */
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
  readonly text: string;
}

export interface Ask {
  method?: string;
  headers?: OutgoingHttpHeaders;
  body?: string;
  signal?: AbortSignal;
}

/** One request on a connection of its own. */
export function ask(url: string, { method = 'POST', headers = {}, body, signal }: Ask = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const req = request(url, { method, headers, agent: false, ...(signal && { signal }) }, (res) => {
      const chunks: Buffer[] = [];
      res.on('data', (chunk: Buffer) => chunks.push(chunk));
      res.on('error', reject);
      res.on('end', () => {
        const whole = Buffer.concat(chunks);
        const { statusCode = 0, headers: received, rawHeaders } = res;
        resolve({ status: statusCode, headers: received, rawHeaders, body: whole, text: whole.toString() });
      });
    });
    req.on('error', reject);
    req.end(body);
  });
}
