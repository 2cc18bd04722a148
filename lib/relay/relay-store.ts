import type { TableNames } from '../store/table-names';
import { type Claim, claimRows, type ClaimRequest } from '../store/relay/claim';
import {
  archiveRows,
  buryRows,
  type Claimed,
  type DeadRow,
  deferRows,
  deleteRows,
  type Failure,
  releaseRows,
  renewRows,
  retryRows,
  type RetriedRow,
} from '../store/relay/settle';
import type { Database } from '../store/relay/statement';

/** Ids of the rows that a settlement changed: those whose claim was not lost. */
export type Changed = ReadonlySet<string>;

/** The table, as the engine sees it. */
export interface RelayStore {
  claim(request: Omit<ClaimRequest, 'leaseMs' | 'deadLettersBlock'>): Promise<Claim>;
  renew(claimed: Claimed): Promise<Changed>;
  complete(claimed: Claimed): Promise<Changed>;
  retry(token: string, rows: readonly RetriedRow[]): Promise<Changed>;
  bury(token: string, rows: readonly DeadRow[]): Promise<Changed>;
  defer(token: string, rows: readonly Failure[]): Promise<Changed>;
  release(claimed: Claimed): Promise<Changed>;
}

export interface RelayStoreSettings {
  readonly leaseMs: number;
  readonly outageCooldownMs: number;
  readonly deadLettersBlock: boolean;
  /** Whether rows that were sent are kept in the archive. */
  readonly archives: boolean;
}

export function createRelayStore(
  database: Database,
  names: TableNames,
  { leaseMs, outageCooldownMs, deadLettersBlock, archives }: RelayStoreSettings,
): RelayStore {
  return {
    claim: (request) => claimRows(database, names, { ...request, leaseMs, deadLettersBlock }),
    renew: (claimed) => renewRows(database, names, claimed, leaseMs),
    complete: (claimed) => (archives ? archiveRows : deleteRows)(database, names, claimed),
    retry: (token, rows) => retryRows(database, names, token, rows),
    bury: (token, rows) => buryRows(database, names, token, rows),
    defer: (token, rows) => deferRows(database, names, token, rows, outageCooldownMs),
    release: (claimed) => releaseRows(database, names, claimed),
  };
}
