import type { VaultAnswer, VaultOperation } from '../../core/plugin/vault.ts'
import { VaultError } from '../errors/error.ts'
import { keyRequest } from '../requests/agentRequests.ts'

/** Of one caller: whose are more forgets its own oldest, and nobody else's. */
const MOST_KEYS = 1_000
/** Longest answer that is kept, as JSON: what an API answered may be large, and the log knows that it was called. */
const MOST_KEPT_CHARS = 65_536
const keyPattern = /^[\x21-\x7e]{1,128}$/

/** Answers that may be given twice: nothing in them that an approval hands out once. */
const kept = new Set<VaultOperation>([
  'vault_sign_tx',
  'vault_sign_message',
  'vault_sign_typed_data',
  'vault_sign_x402',
  'vault_write',
  'vault_delete',
  'vault_call',
])

/**
 * Idempotency keys of agents, in memory: the same request under the same key gets the same answer, even at the same time.
 * Approved requests carry their key in the approval, so those outlive a restart.
 */
export interface Idempotency {
  /** @throws `IDEMPOTENCY_CONFLICT`, `VALIDATION_ERROR` */
  once(request: KeyedRequest): Promise<VaultAnswer>
}

export interface KeyedRequest {
  readonly owner: string
  readonly key: string
  readonly operation: VaultOperation
  readonly requestHash: string
  /** Called before anything is said about an earlier request: who may not ask now hears nothing of it. */
  readonly admit: () => void
  /** Performs the request, admission included. */
  readonly work: () => Promise<VaultAnswer>
}

interface Entry {
  readonly hash: string
  answer: Promise<VaultAnswer> | null
}

export function createIdempotency(): Idempotency {
  const byOwner = new Map<string, Map<string, Entry>>()
  return {
    async once({ owner, key, operation, requestHash, admit, work }) {
      if (!keyPattern.test(key))
        throw new VaultError(
          'VALIDATION_ERROR',
          'Expected Idempotency-Key to be 1 to 128 visible characters.',
        )
      const entries = byOwner.get(owner) ?? new Map<string, Entry>()
      byOwner.set(owner, entries)
      const before = entries.get(key)
      if (before !== undefined && (before.answer !== null || before.hash !== requestHash)) admit()
      if (before !== undefined && before.hash !== requestHash) throw new VaultError('IDEMPOTENCY_CONFLICT')
      if (before?.answer != null) return before.answer
      if (entries.size >= MOST_KEYS) entries.delete(entries.keys().next().value!)
      const entry: Entry = { hash: requestHash, answer: null }
      entries.set(key, entry)
      const answer = work()
      if (!kept.has(operation)) return answer
      entry.answer = answer
      // Only what was done is remembered; a question that is still open is asked for again.
      const forget = () => void (entry.answer = null)
      answer.then((done) => {
        if (done.status !== 200 || JSON.stringify(done.body).length > MOST_KEPT_CHARS) forget()
      }, forget)
      return answer
    },
  }
}

/** The key of a request, by the field of its body or by the header. @throws `VALIDATION_ERROR` */
export function keyOf(named: unknown, header: string | undefined): string | undefined {
  const { idempotency_key: key = header } =
    named === undefined ? {} : keyRequest.check({ idempotency_key: named })
  if (header === undefined || key === header) return key
  throw new VaultError(
    'VALIDATION_ERROR',
    'idempotency_key: Expected the same as Idempotency-Key, or only one of the two.',
  )
}
