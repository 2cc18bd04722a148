import { Bench, type Check } from './bench';
import type { BrokerHarness } from './broker-harness';
import { closeChecks } from './close-checks';
import { connectionChecks } from './connection-checks';
import { deliveryChecks } from './delivery-checks';
import { faultChecks } from './fault-checks';
import { outageChecks } from './outage-checks';
import { restartChecks } from './restart-checks';
import { silenceChecks } from './silence-checks';

/** One guarantee of the broker port, for any test runner. */
export interface ContractCheck {
  /** The guarantee. */
  readonly title: string;
  /** Rejects if the broker does not keep it. To be run alone; gives back what it opened. May take 30 seconds. */
  readonly run: () => Promise<void>;
}

/**
 * The contract of the broker port as a list of checks:
 *
 * ```ts
 * for (const { title, run } of brokerContract(harness)) it(title, run);
 * ```
 *
 * Nothing is started before a check runs. One that passes is no proof: some look for races.
 */
export function brokerContract(harness: BrokerHarness): readonly ContractCheck[] {
  const checks: Check[] = [
    ...deliveryChecks(),
    ...faultChecks(harness),
    ...outageChecks(),
    ...silenceChecks(harness),
    ...restartChecks(harness),
    ...closeChecks(harness),
    ...connectionChecks(harness),
  ];
  return checks.map(({ title, run }) => ({ title, run: () => Bench.use(harness, run) }));
}
