const MAX_CHARACTERS = 1024;
const CUT = '...';

/** What logs and monitors show of arguments: their JSON, cut where Celery cuts its own. */
export function taskRepr(json: string): string {
  if (json.length <= MAX_CHARACTERS) return json;
  // Not within a pair of surrogates: half of one would break the logger of a worker.
  const end = MAX_CHARACTERS - CUT.length;
  return json.slice(0, isHighSurrogate(json.charCodeAt(end - 1)) ? end - 1 : end) + CUT;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
