import { hash, randomUUID } from 'node:crypto'
import { RateLimiterMemory, type RateLimiterRes } from 'rate-limiter-flexible'
import { readAuthorization } from '../../adapters/chains/evm/check/authorization.ts'
import { createEvmCheck } from '../../adapters/chains/evm/check/payment.ts'
import { builtInAssets } from '../../core/domain/asset.ts'
import { paidReply } from '../../core/payments/paidReply.ts'
import { createPurchaseNotes } from '../../core/payments/purchase.ts'
import { type Exchange, gatewayPlugin } from '../../core/plugin/gateway.ts'
import type { Checked, Settler } from '../../core/ports/chains/settler.ts'
import { systemClock } from '../../core/ports/clock.ts'
import type { Counters } from '../../core/ports/counters.ts'
import type { Ledger } from '../../core/ports/store/ledger.ts'
import type { PaymentPayload, PaymentRequirements } from '../../core/x402/types.ts'
import { network } from './offer.ts'

/**
 * Stands in for everything that charges: each call to a paid link counts as bought, nothing is checked and nothing is
 * stored. What is left is how a bought answer is put together, and wrapping shows as much as it ever can.
 */
export default gatewayPlugin({
  name: 'bench-bought',
  api: 1,
  options: { type: 'object', additionalProperties: false, properties: {} },
  needs: ['sealer', 'service'],
  slots: {
    pay: { writes: ['payment'] },
    claim: { writes: ['claim'] },
    record: { writes: ['settlement', 'purchase'] },
    respond: { reads: ['response', 'purchase'] },
  },
  setup(_options, { ports: { sealer, service } }) {
    const notes = createPurchaseNotes(sealer, service.metadataField)
    const payment = {
      identity: { payer: '0x0000000000000000000000000000000000000001' },
    } as Exchange['payment']
    const claim = {} as NonNullable<Exchange['claim']>
    const receipt = ['PAYMENT-RESPONSE', 'e30=']
    const settlement = { transaction: '0x', headers: receipt, headersFor: () => receipt }
    return {
      route({ isPaid }) {
        if (!isPaid) return
        return {
          pay(x) {
            x.payment = payment
          },
          claim(x) {
            x.claim = claim
          },
          record(x) {
            x.settlement = settlement
            x.purchase = notes.of(randomUUID(), x.link.responseMode === 'wrap')
          },
          respond(x) {
            if (x.response === null) return
            return paidReply(x.response, x.response.mediaType, x.purchase!, settlement.headers, false)
          },
        }
      },
    }
  },
})

/** Counters in memory by rate-limiter-flexible, as far as a bench takes from them: the measure for our own. */
export function createLibraryCounters(): Counters {
  const limiters = new Map<string, RateLimiterMemory>()
  const limiterOf = (points: number, windowMs: number) => {
    const name = `${points}/${windowMs}`
    let limiter = limiters.get(name)
    if (limiter === undefined) {
      limiters.set(name, (limiter = new RateLimiterMemory({ points, duration: windowMs / 1_000 })))
    }
    return limiter
  }
  const taken = (ok: boolean, { remainingPoints: remaining, msBeforeNext }: RateLimiterRes) => ({
    ok,
    remaining,
    resetAtMs: Date.now() + msBeforeNext,
  })
  return {
    take: (key, points, limit, windowMs) =>
      limiterOf(limit, windowMs)
        .consume(key, points)
        .then(
          (res) => taken(true, res),
          (res: RateLimiterRes) => taken(false, res),
        ),
    async close() {},
  }
}

/** Books that keep nothing, every change done at once: what a paid call costs when nothing has to be durable. */
export function createForgetfulLedger(): Ledger {
  const claimed = new Set<string>()
  const done = Promise.resolve(true)
  return {
    async claim({ key }) {
      if (claimed.has(key)) throw new Error('Expected each payment once.')
      claimed.add(key)
      return { won: true, row: claimed.size }
    },
    apply: () => done,
    applyAll: async (changes) => changes.map(() => true),
    find: async () => undefined,
    statesOf: async () => new Map(),
    responseOf: async () => undefined,
    adopt: async () => 0,
    due: async () => [],
    async putOff() {},
    parked: async () => ({ total: 0, rows: [] }),
    openAttempts: async () => [],
    minedAttempts: async () => [],
    list: async () => [],
    refundOf: async () => undefined,
    forgetResponses: async () => 0,
    forgetSigned: async () => 0,
    forgetDelivered: async () => 0,
  }
}

/**
 * A settler whose check is the real one (EIP-3009, in process) and whose chain confirms at once: the cost of
 * a paid call without waiting for a node. The attempt is stored as the real settler stores it.
 *
 * @param checksSignatures false leaves out the cryptography, to measure its cost
 */
export function createStubbedSettler(checksSignatures: boolean): Settler {
  const check = createEvmCheck({ network, assets: builtInAssets, clock: systemClock })
  const signedTransaction = `0x${'ab'.repeat(280)}`
  let sequence = 0
  const held = { ok: true, hold: { release: () => undefined } } as const
  return {
    id: 'stub',
    network,
    schemes: ['exact'],
    offerExtra: () => ({}),
    check: checksSignatures ? check : takeItsWord,
    verify: async () => held,
    async settle(_payment, _terms, { key, amountAtomic }, store) {
      const transaction = `0x${key}`
      const attempt = {
        settler: 'stub',
        bytes: signedTransaction,
        transaction,
        sequence: String(sequence++),
      }
      if (await store(attempt))
        return { status: 'settled', transaction, event: '0', block: 1, chargedAtomic: amountAtomic }
      return { status: 'rejected', reason: 'not_stored', message: 'The attempt could not be stored.' }
    },
    recover: async (records) =>
      records.map(() => ({ status: 'pending', transaction: '', reason: 'not_seen' })),
    stillOnChain: async (records) => records.map(() => 'yes'),
    async start() {},
    diagnose: async () => [],
    async close() {},
  }
}

/** The check less its cryptography: the authorisation is read and judged by its form, the payment gets its identity. */
function takeItsWord({ payload }: PaymentPayload, terms: PaymentRequirements): Checked {
  const read = readAuthorization(payload)
  if (!read.ok) return read
  const { from, nonce, value, validBefore } = read.authorization
  return {
    ok: true,
    identity: {
      key: hash('sha256', `${terms.network}|${terms.asset}|${from}|${nonce}`, 'hex'),
      network: terms.network,
      asset: terms.asset,
      payer: from,
      nonce,
      payTo: terms.payTo,
      amountAtomic: BigInt(value),
      validBeforeMs: Number(validBefore) * 1000,
    },
  }
}
