import compression from 'compression';
import type { RequestHandler } from 'express';
import session, { MemoryStore } from 'express-session';
import helmet from 'helmet';

/** Where the middlewares of the field stand: before the given one, or behind it. */
export type Stack = (outbox: RequestHandler) => RequestHandler[];

const compress = (): RequestHandler => compression();
const protect = (): RequestHandler => helmet() as RequestHandler;

// A fixed id makes the cookie the same in every run: its signature depends on nothing else.
const sessions = (): RequestHandler =>
  session({
    secret: 'test',
    genid: () => 'fixed-session-id',
    resave: false,
    saveUninitialized: true,
    store: new MemoryStore(),
  });

/** Adds to the head when it is written, as on-headers, response-time and many others do. */
const lateHeaders = (): RequestHandler => (_req, res, next) => {
  const writeHead = res.writeHead.bind(res) as (...args: unknown[]) => typeof res;
  res.writeHead = (...args: unknown[]) => {
    if (!res.headersSent) res.setHeader('X-Late', String(res.statusCode));
    return writeHead(...args, ...(args.length === 1 ? [{ 'X-Later': 'given to writeHead' }] : []));
  };
  next();
};

const all = (): RequestHandler[] => [protect(), compress(), sessions(), lateHeaders()];

export const STACKS = {
  'nothing else': (outbox) => [outbox],
  'helmet before': (outbox) => [protect(), outbox],
  'helmet behind': (outbox) => [outbox, protect()],
  'compression before': (outbox) => [compress(), outbox],
  'compression behind': (outbox) => [outbox, compress()],
  'express-session before': (outbox) => [sessions(), outbox],
  'express-session behind': (outbox) => [outbox, sessions()],
  'a layer on writeHead before': (outbox) => [lateHeaders(), outbox],
  'a layer on writeHead behind': (outbox) => [outbox, lateHeaders()],
  'all of them before': (outbox) => [...all(), outbox],
  'all of them behind': (outbox) => [outbox, ...all()],
  'all of them before and behind': (outbox) => [...all(), outbox, ...all()],
} satisfies Record<string, Stack>;
