import { isIP } from 'node:net';
import type { RedisOptions } from 'ioredis';

/** A Redis server (or a master that Sentinels know) and how to log in to it. */
export interface RedisTarget {
  /** For messages; without credentials. */
  readonly name: string;
  readonly driver: RedisOptions;
  readonly login: RedisLogin;
}

export interface RedisLogin {
  readonly username: string | undefined;
  readonly password: string | undefined;
  /** NaN if the URL's path is not a number. */
  readonly db: number;
  readonly connectionName: string | undefined;
}

const DEFAULT_PORT = 6379;
const KEEP_ALIVE_MS = 30_000;

export function isRedis(url: string): boolean {
  return /^rediss?:/.test(url);
}

/**
 * Reads a URL as kombu does: credentials percent-encoded, the database in the path, `ssl_cert_reqs` in the query.
 *
 * @param options - ioredis's options. What the URL says wins over them, except that with `sentinels` its host is not
 * used; and what keeps ioredis from sending something later or again wins over both.
 */
export function redisTarget(
  url: string,
  options: Readonly<RedisOptions>,
  connectTimeoutMs: number,
): RedisTarget {
  const parsed = new URL(url);
  const { username, password, db = 0, connectionName, sentinels, ...rest } = options;
  const host = parsed.hostname.replace(/^\[|\]$/g, '') || rest.host || 'localhost';
  const port = Number(parsed.port) || rest.port || DEFAULT_PORT;
  const path = parsed.pathname.replace(/^\//, '');
  const tls = rest.tls ?? (parsed.protocol === 'rediss:' ? {} : undefined);
  return {
    name: sentinels ? `Redis master ${String(rest.name)}` : `Redis at ${host}:${port}`,
    login: {
      username: decodeURIComponent(parsed.username) || username,
      password: decodeURIComponent(parsed.password) || password,
      db: path === '' ? db : /^\d+$/.test(path) ? Number(path) : NaN,
      connectionName,
    },
    driver: {
      keepAlive: KEEP_ALIVE_MS,
      ...rest,
      ...(sentinels ? { sentinels, enableTLSForSentinelMode: tls !== undefined } : { host, port }),
      ...(tls && { tls: tlsOptions(tls, host, parsed.searchParams.get('ssl_cert_reqs')) }),
      ...promises(connectTimeoutMs, sentinels?.length ?? 0),
    },
  };
}

/** A connection lives once: ioredis never opens it again, and so has nothing to send again. */
function promises(connectTimeoutMs: number, sentinels: number): RedisOptions {
  // A Sentinel that is silent must leave time for the next one and for the master.
  const stepMs = Math.max(1, Math.floor(connectTimeoutMs / (sentinels + 1)));
  return {
    lazyConnect: true,
    retryStrategy: null,
    sentinelRetryStrategy: () => null,
    reconnectOnError: null,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    enableOfflineQueue: false,
    enableAutoPipelining: false,
    // The connection has its own check and its own deadlines.
    enableReadyCheck: false,
    disableClientInfo: true,
    monitor: false,
    commandTimeout: undefined,
    socketTimeout: undefined,
    connectTimeout: stepMs,
    sentinelCommandTimeout: stepMs,
    // A connection that is dropped does not go on to send what its socket holds.
    disconnectTimeout: 0,
  };
}

function tlsOptions(
  tls: NonNullable<RedisOptions['tls']>,
  host: string,
  certReqs: string | null,
): NonNullable<RedisOptions['tls']> {
  return {
    ...(isIP(host) === 0 && { servername: host }),
    // To a client CERT_OPTIONAL means what CERT_REQUIRED does: a server always shows its certificate.
    ...(certReqs !== null && /^(CERT_)?NONE$/i.test(certReqs) && { rejectUnauthorized: false }),
    ...tls,
  };
}
