import type { Job, JobInformation, Queue } from 'bull';
import type { TickData } from './tick';

export const JOB_NAME = 'pass';

/** How many jobs that ended are kept, of each kind. */
const KEPT_JOBS = 100;
/** Nobody else puts jobs into this queue, so there are two or three. */
const MAX_PENDING = 100;

/**
 * Makes sure that exactly one repeatable job runs in the queue, at this interval. Bull itself only adds: an old
 * interval runs on beside a new one, and a chain that has ended (each job adds the next one when it begins, and may
 * never begin) stays so, though Bull lists it. May be called at any time, also while a job runs.
 */
export async function assertRepeatable(
  queue: Queue<TickData>,
  everyMs: number,
  data: TickData,
): Promise<void> {
  const repeatable = await keepOne(queue, everyMs);
  const next = await keepPending(queue, everyMs, repeatable?.key);
  if (next === undefined || repeatable === undefined) await add(queue, everyMs, data);
  // Each job hands its data to the next one.
  else if (next.data.relayId !== data.relayId) await next.update(data);
}

async function keepOne(queue: Queue<TickData>, everyMs: number): Promise<JobInformation | undefined> {
  const repeatables = (await queue.getRepeatableJobs()).filter(({ name }) => name === JOB_NAME);
  // Not typed as they come: without an id and an end, these are null.
  const kept = repeatables.find(
    ({ id, endDate, cron, every }) => !id && !endDate && !cron && every === everyMs,
  );
  for (const repeatable of repeatables) {
    if (repeatable !== kept) await queue.removeRepeatableByKey(repeatable.key);
  }
  return kept;
}

/** Removes what would run at another interval, or too late because its clock was ahead of ours. */
async function keepPending(
  queue: Queue<TickData>,
  everyMs: number,
  key: string | undefined,
): Promise<Job<TickData> | undefined> {
  const jobs = await queue.getJobs(['delayed', 'waiting', 'paused'], 0, MAX_PENDING - 1, true);
  let next: Job<TickData> | undefined;
  for (const job of jobs as (Job<TickData> | null)[]) {
    const repeat = job?.opts.repeat;
    if (job === null || repeat === undefined || job.name !== JOB_NAME) continue;
    const dueInMs = job.timestamp + (job.opts.delay ?? 0) - Date.now();
    if (repeat.key === key && dueInMs <= 2 * everyMs) next ??= job;
    // One that has begun meanwhile is the last of its kind anyway.
    else await job.remove().catch(() => undefined);
  }
  return next;
}

async function add(queue: Queue<TickData>, everyMs: number, data: TickData): Promise<void> {
  const options = { repeat: { every: everyMs }, removeOnComplete: KEPT_JOBS, removeOnFail: KEPT_JOBS };
  const job = await queue.add(JOB_NAME, data, options);
  // Its id is made of the time. If a clock was set back, one of that id may have ended, and then none is added.
  if ((await job.isCompleted()) || (await job.isFailed())) {
    await job.remove();
    await queue.add(JOB_NAME, data, options);
  }
}
