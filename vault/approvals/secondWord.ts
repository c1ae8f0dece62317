import { VaultError } from '../errors/error.ts'
import type { ShownPart } from './shownPart.ts'

/** What of an approval says whether a click is enough. */
interface Asked {
  readonly state: string
  readonly isOpaque: boolean
  readonly parts: readonly ShownPart[]
}

/**
 * The word that the owner has to type to approve what one click must not: `blind` where the vault did not understand
 * everything, `unread` where not everything can be shown. Null where there is nothing to decide, or a click is enough.
 */
export function secondWordOf({ state, isOpaque, parts }: Asked): string | null {
  if (state !== 'pending') return null
  if (isOpaque) return 'blind'
  return parts.every(({ isWhole }) => isWhole) ? null : 'unread'
}

/** @throws `VALIDATION_ERROR` that says what to send */
export function assertSecondWord(record: Asked, given: unknown): void {
  const word = secondWordOf(record)
  if (word === null || given === word) return
  const why =
    word === 'blind'
      ? 'not everything that it does is understood'
      : 'not everything that it signs, sends or stores can be shown'
  throw new VaultError(
    'VALIDATION_ERROR',
    `second_word: Expected "${word}", typed by the owner: ${why}. Nothing was decided.`,
    { details: [{ path: 'second_word', message: `Expected "${word}".` }] },
  )
}
