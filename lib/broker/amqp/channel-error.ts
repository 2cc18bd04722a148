/** Why the broker closed a channel: AMQP's reply code, as amqplib puts it on its errors. */
export interface ChannelError extends Error {
  readonly code: number;
}

export const NOT_FOUND = 404;
export const ACCESS_REFUSED = 403;

/** Whether the broker refused an operation. Any other error means that the connection is lost. */
export function isChannelError(error: unknown): error is ChannelError {
  return error instanceof Error && typeof (error as Partial<ChannelError>).code === 'number';
}
