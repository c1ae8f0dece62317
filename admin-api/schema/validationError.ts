import { type ErrorDetail, TollgateError } from '../../core/errors/error.ts'

/** Details whose words stand in the message too, and how long it gets: clients show an agent the first 500 characters of an error. */
const SPOKEN_DETAILS = 3
const SPOKEN_CHARS = 400

/** A `VALIDATION_ERROR` that names every field, the first of them in its message. */
export function validationError(details: readonly ErrorDetail[]): TollgateError {
  const spoken: string[] = []
  let chars = 0
  for (const { path, message } of details.slice(0, SPOKEN_DETAILS)) {
    const words = path === '' ? message : `${path}: ${message}`
    chars += words.length
    if (spoken.length > 0 && chars > SPOKEN_CHARS) break
    spoken.push(words)
  }
  const unspoken = details.length - spoken.length
  const more = unspoken > 0 ? ` (${unspoken} more in details)` : ''
  return new TollgateError('VALIDATION_ERROR', spoken.join(' ') + more, { details })
}
