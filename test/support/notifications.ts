import { Client } from 'pg';

/** What is notified on one channel. */
export interface Notifications {
  /** How many have come so far. */
  readonly count: number;
  close(): Promise<void>;
}

export async function hearNotifications(url: string, channel: string): Promise<Notifications> {
  const client = new Client(url);
  let count = 0;
  client.on('notification', () => (count += 1));
  await client.connect();
  await client.query(`LISTEN ${client.escapeIdentifier(channel)}`);
  return {
    get count() {
      return count;
    },
    close: () => client.end(),
  };
}
