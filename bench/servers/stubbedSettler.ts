import { hash } from 'node:crypto'
import { readAuthorization } from '../../adapters/chains/evm/check/authorization.ts'
import { createEvmCheck } from '../../adapters/chains/evm/check/check.ts'
import { builtInAssets } from '../../core/domain/asset.ts'
import type { Checked, Settler } from '../../core/ports/chains/settler.ts'
import { systemClock } from '../../core/ports/clock.ts'
import type { PaymentPayload, PaymentRequirements } from '../../core/x402/types.ts'
import { network } from './offer.ts'

/**
 * A settler whose check is the real one (EIP-3009, in process) and whose chain answers yes at once: what is left of a
 * paid call when nobody has to wait for a node. The attempt is stored as the real one stores it.
 *
 * @param checksSignatures false leaves out the cryptography, so that what it costs can be told apart
 */
export function createStubbedSettler(checksSignatures: boolean): Settler {
  const check = createEvmCheck({ network, assets: builtInAssets, clock: systemClock })
  const signedTransaction = `0x${'ab'.repeat(280)}`
  let sequence = 0
  const held = { ok: true, hold: { release: () => undefined } } as const
  return {
    id: 'stub',
    network,
    scheme: 'exact',
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
