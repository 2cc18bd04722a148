import { format, type Logform } from 'winston';
import { currentLogContext } from '../context/log-context';

/**
 * A winston format that adds the current log context to every line. Fields of the line itself win.
 *
 * @example
 * createLogger({ format: format.combine(logContextFormat(), format.json()), … })
 */
export const logContextFormat: () => Logform.Format = format((info) => {
  for (const [key, value] of Object.entries(currentLogContext())) {
    if (!(key in info)) info[key] = value;
  }
  return info;
});
