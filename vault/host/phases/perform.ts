import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { VaultAnswer } from '../../../core/plugin/vault.ts'
import { APPROVAL_TTL_MS, type ApprovalBook } from '../../approvals/approvalBook.ts'
import { isVaultError, VaultError } from '../../errors/error.ts'
import type { Vault } from '../../ports/vault.ts'
import { eventOf } from '../eventOf.ts'
import { signatureId } from '../hashOf.ts'
import { markCounted, reserve } from '../reserve.ts'
import type { VaultCall } from '../vaultCall.ts'
import { keyOf, onceActOf } from './approve.ts'
import type { HostPlugin } from './hostPlugin.ts'

/** Answers that are the same each time, kept for whoever asks again: as long as an approved one is. */
const MOST_ANSWERS = 1_000

/**
 * Does what was granted, once however many ask for it at the same time. Money is held back in the journal before the
 * signature leaves, and the log has its entry before any answer does.
 */
export function createPerforming(vault: Vault, book: ApprovalBook): HostPlugin {
  const running = new Map<string, Promise<VaultAnswer>>()
  /** In which encoding the bytes that are being signed will be answered, by {@link sameId}. */
  const encodings = new Map<string, string>()
  const answers = new LRUCache<string, VaultAnswer>({ max: MOST_ANSWERS, ttl: APPROVAL_TTL_MS })
  vault.onLock(() => answers.clear())

  return {
    name: 'perform',
    slots: { perform: { reads: ['request'], writes: ['answer'] } },
    route: (operation) => ({
      perform(x) {
        const plan = x.plan!
        if (operation === 'vault_preview') return plan.act(x.requestId)
        if (operation === 'get_address') return giveAddress(x)
        if (x.approval !== null) return together(x.approval.id, x, () => doApproved(x))
        if (plan.repeat === 'same') return doSame(x)
        // What gives nothing away twice needs no table of who asks for the same.
        if (plan.spends.length === 0 && plan.repeat === 'new') return doAlone(x, newAttempt())
        // Under a key it is counted by its key, so that it is known again after a restart.
        const spendId = x.idempotencyKey === null ? newAttempt() : `key_${keyOf(x)}`
        return together(keyOf(x), x, () => doAlone(x, spendId))
      },
    }),
  }

  /** An address is no secret: its entry in the log is on its way, and the answer need not wait for the disk. */
  function giveAddress(x: VaultCall): Promise<VaultAnswer> {
    x.isLogged = true
    vault.audit.append(eventOf(x, 'AUTO_APPROVED')).catch(() => undefined)
    return x.plan!.act(x.requestId)
  }

  function together(key: string, x: VaultCall, work: () => Promise<VaultAnswer>): Promise<VaultAnswer> {
    const others = running.get(key)
    if (others !== undefined) {
      x.isLogged = true
      return others
    }
    const done = work().finally(() => running.delete(key))
    running.set(key, done)
    return done
  }

  /**
   * Signs the same bytes once, however often and under whatever words they are asked for: the budget counts them by their
   * hash, also after a restart, and the log has one entry. Whoever asked in another encoding, gets it in that one.
   */
  function doSame(x: VaultCall): VaultAnswer | Promise<VaultAnswer> {
    const id = sameId(x)
    const { encoding = 'none' } = x.plan!.judged?.decoded ?? {}
    const before = answers.get(`${id} ${encoding}`)
    if (before !== undefined) {
      x.isLogged = true
      return before
    }
    const others = running.get(id)
    // One after the other: what fails gives its money back, and must not give back that of a signature beside it.
    if (others !== undefined && encodings.get(id) !== encoding)
      return others.then(
        () => doSame(x),
        () => doSame(x),
      )
    encodings.set(id, encoding)
    return together(id, x, async () => {
      try {
        const answer = await doAlone(x, id)
        if (!vault.state.locked) answers.set(`${id} ${encoding}`, answer)
        return answer
      } finally {
        encodings.delete(id)
      }
    })
  }

  async function doAlone(x: VaultCall, spendId: string): Promise<VaultAnswer> {
    const held = reserve(vault.budget, x, spendId)
    // Each signature of such a request is another payment, and the one that was made under this key may have left.
    if (held?.isRepeat === true && x.plan!.repeat === 'new')
      throw new VaultError(
        'REQUEST_ID_USED',
        'This was signed under the same Idempotency-Key before, and its answer is not kept. Use a new key to pay anew.',
      )
    if (x.plan!.repeat === 'once') return doOnce(x, 'AUTO_APPROVED')
    let answer: VaultAnswer
    try {
      answer = await x.plan!.act(newAttempt())
    } catch (error) {
      if (held?.isRepeat === false) await vault.budget.release(spendId).catch(() => undefined)
      throw error
    }
    x.isLogged = true
    const isSame = x.plan!.repeat === 'same'
    const actName = isSame ? spendId : onceActOf(x)
    // A crash after the entry and before the answer: asked for again, it is given, and has its entry.
    const logged =
      isSame && vault.audit.hasAct(spendId)
        ? undefined
        : vault.audit.append({
            ...eventOf(x, 'AUTO_APPROVED'),
            ...(actName !== undefined && { act: actName }),
          })
    await Promise.all([held?.durable, logged])
    if (held !== null) commit(spendId, held.isRepeat)
    return answer
  }

  /** What can't be taken back has its entry first: in the middle of it the vault may be locked, be killed, or have a full disk. */
  async function doOnce(x: VaultCall, status: 'APPROVED' | 'AUTO_APPROVED'): Promise<VaultAnswer> {
    const act = onceActOf(x)
    if (x.approval === null || !vault.audit.hasAct(x.approval.id))
      await vault.audit.append({ ...eventOf(x, status), ...(act !== undefined && { act }) })
    if (x.approval !== null) await book.consume(x.approval.id, null)
    x.isLogged = true
    try {
      return await x.plan!.act(newAttempt())
    } catch (error) {
      x.isLogged = false
      throw error
    }
  }

  /** What an earlier try held back and did not use is spent by this one; most repeats were committed by the first. */
  function commit(spendId: string, isRepeat: boolean): void {
    try {
      vault.budget.commit(spendId)
    } catch (error) {
      if (!isRepeat || !isVaultError(error) || error.code !== 'NOT_FOUND') throw error
    }
  }

  async function doApproved(x: VaultCall): Promise<VaultAnswer> {
    const approval = book.get(x.approval!.id) ?? x.approval!
    // Somebody who waited for the same question was quicker, and has finished.
    if (approval.state === 'consumed' && approval.answer !== null) return approval.answer
    if (approval.state !== 'approved')
      throw new VaultError('APPROVAL_RESOLVED', `The approval is ${approval.state}.`)
    const { repeat, act } = x.plan!
    if (repeat === 'once') return doOnce(x, 'APPROVED')
    const answerKept = repeat === 'same' || x.idempotencyKey !== null
    let answer: VaultAnswer
    try {
      answer = await act(newAttempt())
    } catch (error) {
      // What may go better the next time keeps its approval.
      if (isVaultError(error) && !error.retryable) await book.fail(approval.id)
      x.isLogged = false
      throw error
    }
    // First the log, then the approval: once it is consumed, its answer is given to whoever asks again.
    // It has its entry already where a crash came between.
    const actName = repeat === 'same' ? sameId(x) : onceActOf(x)
    if (!vault.audit.hasAct(approval.id))
      await vault.audit.append({
        ...eventOf(x, 'APPROVED'),
        ...(actName !== undefined && { act: actName }),
      })
    await book.consume(approval.id, answerKept ? answer : null)
    if (repeat === 'same' && approval.reservationId !== null)
      markCounted(vault.budget, x.caller.id, sameId(x))
    return answer
  }
}

const sameId = ({ caller, plan }: VaultCall): string => signatureId(caller.id, plan!.action, plan!.frozenHash)

const newAttempt = (): string => `req_${randomBytes(12).toString('base64url')}`
