import type { VaultOperation, VaultResponse } from '../../core/plugin/vault.ts'
import { VaultError } from '../errors/error.ts'

/** Maximum keys per caller. With more keys, the caller loses its own oldest key, never another caller's. */
const MAX_KEYS = 1_000
/**
 * Maximum length of a stored response, in characters of JSON. An API's response may be longer, but the log still has the call.
 */
const MAX_STORED_CHARS = 65_536
const keyPattern = /^[\x21-\x7e]{1,128}$/

/** Operations whose response may be returned twice. It contains nothing that an approval gives out only once. */
const kept = new Set<VaultOperation>([
  'vault_sign_tx',
  'vault_sign_message',
  'vault_sign_typed_data',
  'vault_sign_x402',
  'vault_write',
  'vault_delete',
  'vault_call',
])

export interface KeyedRequest {
  readonly owner: string
  readonly key: string
  readonly operation: VaultOperation
  readonly requestHash: string
  /**
   * Called before anything about an earlier request is revealed. An agent that may not send requests now must learn nothing
   * about it.
   */
  readonly admit: () => void
  /** Performs the request, including the check of the caller. */
  readonly work: () => Promise<VaultResponse>
}

interface Entry {
  readonly hash: string
  response: Promise<VaultResponse> | null
}

/**
 * Idempotency keys of agents, in memory. A repeated request with the same key gets the same response, even while the first
 * request runs. The key of an approved request is in its approval, so it survives a restart.
 */
export class Idempotency {
  readonly #byOwner = new Map<string, Map<string, Entry>>()

  /** @throws `IDEMPOTENCY_CONFLICT`, `VALIDATION_ERROR` */
  async once({ owner, key, operation, requestHash, admit, work }: KeyedRequest): Promise<VaultResponse> {
    if (!keyPattern.test(key))
      throw new VaultError('VALIDATION_ERROR', 'Idempotency-Key: Expected 1 to 128 visible ASCII characters.')
    const entries = this.#byOwner.get(owner) ?? new Map<string, Entry>()
    this.#byOwner.set(owner, entries)
    const before = entries.get(key)
    if (before !== undefined && (before.response !== null || before.hash !== requestHash)) admit()
    if (before !== undefined && before.hash !== requestHash) throw new VaultError('IDEMPOTENCY_CONFLICT')
    if (before?.response != null) return before.response
    if (entries.size >= MAX_KEYS) entries.delete(entries.keys().next().value!)
    const entry: Entry = { hash: requestHash, response: null }
    entries.set(key, entry)
    const response = work()
    if (!kept.has(operation)) return response
    entry.response = response
    // Only completed requests are stored. If a request with an open approval is repeated, it runs again and finds the approval.
    const forget = () => void (entry.response = null)
    response.then((done) => {
      if (done.status !== 200 || JSON.stringify(done.body).length > MAX_STORED_CHARS) forget()
    }, forget)
    return response
  }
}
