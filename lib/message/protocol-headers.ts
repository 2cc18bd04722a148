/** Headers that the protocol sets. One of a user's with such a name would overwrite it in the message. */
export const PROTOCOL_HEADERS: ReadonlySet<string> = new Set(
  (
    'lang task id shadow eta expires group group_index retries timelimit root_id parent_id argsrepr kwargsrepr ' +
    'origin ignore_result compression'
  ).split(' '),
);

/** Under this name the log context of the caller travels. */
export const LOG_CONTEXT_HEADER = 'log_context';
