import type { Options } from 'amqplib';

/** RabbitMQ's own 60 s would find a dead peer after two to three minutes. */
const HEARTBEAT_SECONDS = 30;

/**
 * A broker URL as amqplib's connection options. Taken apart here because amqplib decodes percent-encoded credentials
 * as Latin-1. The path is the virtual host, as in kombu: none, `/`, `//` and `/%2F` are all the virtual host `/`.
 */
export function amqpOptions(url: string): Options.Connect {
  const { protocol, hostname, port, username, password, pathname, searchParams } = new URL(url);
  const isAnonymous = username === '' && password === '';
  const numbers = ['heartbeat', 'frameMax', 'channelMax'].map((name): [string, number] | null => {
    const value = searchParams.get(name);
    return value === null ? null : [name, Number(value)];
  });
  return {
    protocol: protocol.slice(0, -1),
    hostname: hostname.replaceAll(/^\[|\]$/g, ''),
    ...(port !== '' && { port: Number(port) }),
    ...(!isAnonymous && {
      username: decodeURIComponent(username),
      password: decodeURIComponent(password),
    }),
    vhost: pathname.slice(1),
    heartbeat: HEARTBEAT_SECONDS,
    ...Object.fromEntries(numbers.filter((number) => number !== null)),
  };
}
