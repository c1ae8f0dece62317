import { type ErrorDetail, TollgateError } from '../../core/errors/error.ts'

/** Details whose words stand in the message too: clients show an agent the first 500 characters of an error. */
const spokenDetails = 3

/** A `VALIDATION_ERROR` that names every field, the first of them in its message. */
export function validationError(details: readonly ErrorDetail[]): TollgateError {
  const spoken = details
    .slice(0, spokenDetails)
    .map((d) => (d.path === '' ? d.message : `${d.path}: ${d.message}`))
  const more = details.length > spokenDetails ? ` (${details.length - spokenDetails} more in details)` : ''
  return new TollgateError('VALIDATION_ERROR', spoken.join(' ') + more, { details })
}
