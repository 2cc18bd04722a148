// The copy that celery-node brings has no types. These are the parts that tests use.
declare module 'amqplib' {
  export interface Message {
    content: Buffer;
    properties: { headers: Record<string, unknown>; contentType: string; deliveryMode: number };
  }
  export interface Channel {
    assertQueue(queue: string, options?: object): Promise<unknown>;
    deleteQueue(queue: string): Promise<unknown>;
    get(queue: string, options: { noAck: boolean }): Promise<Message | false>;
  }
  export interface Connection {
    createChannel(): Promise<Channel>;
    close(): Promise<void>;
  }
  export function connect(url: string): Promise<Connection>;
}
