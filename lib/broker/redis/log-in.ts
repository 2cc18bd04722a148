import type Redis from 'ioredis';
import { BrokerOutage } from '../broker-error';
import { accessOutage, isAccess, reasonOf, replyCode } from './failure';
import type { RedisTarget } from './redis-target';

/**
 * Logs in, chooses the database and asks whether the server is ready. Not left to ioredis, which goes on without a
 * login, or in database 0, when Redis refuses them.
 *
 * @returns why it is not possible
 * @throws ioredis's error if there was no reply
 */
export async function logIn(redis: Redis, { name, login }: RedisTarget): Promise<BrokerOutage | undefined> {
  const { username, password, db, connectionName } = login;
  if (Number.isNaN(db)) return accessOutage(name, 'database', 'it is not a number');
  // Sent together; what follows a refusal is refused or thrown away with the connection.
  const [auth, select, , ping] = await Promise.all([
    password === undefined ? undefined : refusal(authenticate(redis, username, password)),
    db === 0 ? undefined : refusal(redis.select(db)),
    connectionName === undefined ? undefined : refusal(redis.client('SETNAME', connectionName)),
    refusal(redis.ping()),
  ]);
  if (auth !== undefined) return accessOutage(name, 'login', auth);
  if (isAccess(ping)) return accessOutage(name, 'connection', ping);
  if (select !== undefined) return accessOutage(name, 'database', select);
  // An account that may not PING has logged in all the same.
  if (ping === undefined || replyCode(ping) === 'NOPERM') return undefined;
  return new BrokerOutage(`${name} is not ready: ${reasonOf(ping)}`);
}

function authenticate(redis: Redis, username: string | undefined, password: string): Promise<unknown> {
  return username === undefined ? redis.auth(password) : redis.auth(username, password);
}

async function refusal(answer: Promise<unknown>): Promise<unknown> {
  try {
    await answer;
    return undefined;
  } catch (error) {
    if (replyCode(error) === undefined) throw error;
    return error;
  }
}
