import { randomUUID } from 'node:crypto'
import type { PaymentRecord } from '../../core/domain/payment.ts'
import { readBody } from '../../core/http/readBody.ts'
import { insist } from '../../core/payments/insist.ts'
import { newPurchaseId } from '../../core/payments/newPurchaseId.ts'
import { createPurchaseNotes } from '../../core/payments/purchaseNote.ts'
import { requestHash } from '../../core/payments/requestHash.ts'
import { type Exchange, gatewayPlugin, type Reply } from '../../core/plugin/gateway.ts'
import { options } from './options.ts'
import { answerRepeat, isSameCall, notInTime, type RepeatRules } from './repeat.ts'
import { mayResume, resumeCall } from './resume.ts'
import { createRunning, join, sharedOf, underWayOf } from './running.ts'

const POLL_MS = 100
/** What became of a charged call is noted right after it: somebody with another call waits for no more than that. */
const NOTED_MS = 1_000

/**
 * Lets a payment buy one call. The first caller wins by one durable insert; everyone after gets the first one's answer
 * when it is the same call, and a refusal when it is another. The seller never works twice for one payment.
 */
export default gatewayPlugin({
  name: 'replay-guard',
  api: 1,
  options,
  needs: ['payments', 'service', 'sealer', 'clock', 'log'],
  slots: { claim: { reads: ['payment'], writes: ['claim'] } },
  setup(
    { maxBodyBytes, joinTimeoutMs, replayWindowMs },
    { ports: { payments, service, sealer, clock, log } },
  ) {
    const owner = service.instanceId
    const rules: RepeatRules = {
      notes: createPurchaseNotes(sealer, service.metadataField),
      replayWindowMs,
      now: () => clock.now(),
    }
    const { running, claiming } = underWayOf(payments)
    /** Calls that are being given what was paid for and not handed out yet. */
    const handingOut = new WeakMap<Exchange, Paid>()

    async function claim(x: Exchange): Promise<Reply | undefined> {
      const { identity, unclaimable } = x.payment!
      const hash = await hashOf(x, maxBodyBytes)
      const startedMs = performance.now()
      for (;;) {
        const first = running.get(identity.key)
        if (first !== undefined) {
          const joined = await join(first, x, hash, startedMs + joinTimeoutMs - performance.now())
          if (joined?.isUndelivered) handingOut.set(x, first)
          if (joined !== undefined) {
            x.upstreamStatus = joined.upstreamStatus
            return joined.reply
          }
        }
        const lost = unclaimable === null ? await tryClaim(x, hash) : await findBought(x)
        if (lost === undefined) return
        if (mayResume(x, lost, hash, rules)) {
          if (await payments.resume(lost.key, owner)) {
            running.set(lost.key, createRunning(lost.key, lost.purchaseId, x.link.id, hash))
            resumeCall(x, lost, owner, rules.notes)
            return
          }
        } else {
          const reply = answerRepeat(x, lost, hash, rules)
          if (reply !== undefined) {
            if (lost.state === 'settled') handingOut.set(x, lost)
            return reply
          }
        }
        const waitsMs = isSameCall(x, lost, hash) ? joinTimeoutMs : Math.min(joinTimeoutMs, NOTED_MS)
        if (performance.now() - startedMs >= waitsMs) throw notInTime(lost, running.has(lost.key))
        // Another process works on it: its outcome shows in the store.
        await new Promise((resolve) => setTimeout(resolve, POLL_MS))
      }
    }

    function noteDelivered({ key, purchaseId }: Paid): void {
      insist(
        () => payments.moveCharged(key, 'settled', 'delivered', []),
        (err) => log.warn({ err, purchaseId }, 'could not note that a stored answer was delivered'),
      )
    }

    /** @returns undefined when the payment is ours now, otherwise the row of whoever has it. */
    async function tryClaim(x: Exchange, hash: string | null): Promise<PaymentRecord | undefined> {
      const { identity, payload } = x.payment!
      const { key } = identity
      claiming.set(key, (claiming.get(key) ?? 0) + 1)
      try {
        const result = await payments.claim({
          ...identity,
          owner,
          linkId: x.link.id,
          storeId: x.link.storeId,
          requestHash: hash ?? `stream:${randomUUID()}`,
          purchaseId: newPurchaseId(clock.now()),
          payload: JSON.stringify(payload),
        })
        if (!result.won) return result.record
        x.claim = { key, owner, purchaseId: result.purchaseId, state: 'claimed' }
        running.set(key, createRunning(key, result.purchaseId, x.link.id, hash))
      } catch (error) {
        // The store could not say; should the claim be there after all, nobody works on it.
        free(key, false, 'store_unavailable')
        throw error
      } finally {
        const left = claiming.get(key)! - 1
        if (left === 0) claiming.delete(key)
        else claiming.set(key, left)
      }
    }

    /** A payment that can't be claimed now may have bought this call while it could. */
    async function findBought(x: Exchange): Promise<PaymentRecord> {
      const { identity, unclaimable } = x.payment!
      const record = await payments.find(identity.key)
      if (record === undefined || record.state === 'rejected') throw unclaimable!
      return record
    }

    /**
     * Frees a payment that was never sent to the chain, so that the buyer may use it again.
     *
     * @param isOurs the row is known to be this call's; otherwise, and in every later try, a claim that another call of
     *   this process made has the same owner and must not be freed with it
     */
    function free(key: string, isOurs: boolean, reason?: string): void {
      let isSure = isOurs
      const write = async () => {
        if (!isSure && running.has(key)) return
        if (!isSure && claiming.has(key)) throw new Error('The payment is being claimed again.')
        isSure = false
        await payments.advance(key, owner, 'claimed', 'rejected', reason)
      }
      insist(write, (err) => log.warn({ err, key }, 'could not free a payment; the reconciler will'))
    }

    function release(x: Exchange): void {
      const { key, state } = x.claim!
      const first = running.get(key)
      running.delete(key)
      if (state === 'claimed') free(key, true, x.errorCode ?? undefined)
      first?.finish(sharedOf(x))
    }

    return {
      route({ isPaid }) {
        if (!isPaid) return
        return {
          claim,
          log: (x) => {
            if (x.claim !== null) return release(x)
            const paid = x.payment === null ? undefined : handingOut.get(x)
            // Who left before it came may be back for it.
            if (paid !== undefined && !x.isUnsent) noteDelivered(paid)
          },
        }
      },
    }
  },
})

/** What is known of a payment whose answer is handed out late. */
type Paid = Pick<PaymentRecord, 'key' | 'purchaseId'>

function hashOf(x: Exchange, maxBodyBytes: number): string | null | Promise<string | null> {
  const method = x.req.method!
  const target = x.subPath + x.query
  if (!x.hasBody) return requestHash(method, target, null)
  const reading = readBody(x.req, maxBodyBytes)
  if (reading === null) return null
  return reading.then((body) => {
    x.body = body
    return requestHash(method, target, body)
  })
}
