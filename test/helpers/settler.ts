import { createHash } from 'node:crypto'
import type { NetworkId } from '../../core/domain/network.ts'
import type { PaymentIdentity, PaymentRecord, SettlementAttempt } from '../../core/domain/payment.ts'
import type { Checked, Hold, Refusal, SettleOutcome, Settler } from '../../core/ports/chains/settler.ts'
import { encodeHeader } from '../../core/x402/header.ts'
import type { PaymentPayload, PaymentRequirements, Scheme } from '../../core/x402/types.ts'

/** The network, asset and wallet of tests that need no chain. */
export const testNetwork: NetworkId = 'eip155:84532'
export const testAsset = '0x036CbD53842c5426634e7929541eC2318f3dCF7e'
export const testPayTo = '0x1111111111111111111111111111111111111111'

/** A settler whose chain is a map in memory: payments are `{payer, nonce, value}`, and every step can be made to fail. */
export interface ScriptedSettler extends Settler {
  /** Nonces that were transferred, in order: the chain. */
  readonly transfers: string[]
  /** How many times each step ran. */
  readonly calls: Record<'check' | 'verify' | 'settle' | 'recover', number>
  /** Whether `recover` broadcasts stored bytes that are not on chain, as the real ones do while they could land. */
  sendsAgain: boolean
  /** Ends every verification that would be a yes, when it says so. */
  verifyWith: () => Promise<{ readonly ok: true } | Refusal>
  /** Payments that were verified and neither settled nor released. */
  readonly held: number
  /** Runs between the durable store and the transfer; its outcome, if any, replaces the ordinary one. */
  settleWith: (transfer: () => string, identity: PaymentIdentity) => Promise<SettleOutcome | undefined>
  /** What becomes of one stored attempt that is asked for. */
  recoverOne: (record: PaymentRecord) => Promise<SettleOutcome>
}

export function createScriptedSettler(
  network: NetworkId = testNetwork,
  schemes: readonly Scheme[] = ['exact'],
): ScriptedSettler {
  const transfers: string[] = []
  const holds = new Set<Hold>()
  const calls = { check: 0, verify: 0, settle: 0, recover: 0 }
  const settler: ScriptedSettler = {
    id: 'scripted',
    network,
    schemes,
    offerExtra: () => ({}),
    transfers,
    calls,
    sendsAgain: false,
    get held() {
      return holds.size
    },
    verifyWith: async () => ({ ok: true }),
    settleWith: async () => undefined,
    check(payment, terms): Checked {
      calls.check++
      return identify(payment, terms)
    },
    async verify() {
      calls.verify++
      const verified = await settler.verifyWith()
      if (!verified.ok) return verified
      const hold: Hold = { release: () => void holds.delete(hold) }
      holds.add(hold)
      return { ok: true, hold }
    },
    async settle(_payment, terms, identity, store, hold): Promise<SettleOutcome> {
      calls.settle++
      hold?.release()
      const transaction = `0x${identity.key}`
      const attempt: SettlementAttempt = { settler: 'scripted', bytes: '0x00', transaction, sequence: '0' }
      if (!(await store(attempt))) return { status: 'rejected', reason: 'not_stored', message: 'not stored' }
      const transfer = () => {
        transfers.push(identity.nonce)
        return transaction
      }
      return (
        (await settler.settleWith(transfer, identity)) ?? scriptedSettled(transfer(), BigInt(terms.amount))
      )
    },
    async recover(records) {
      calls.recover++
      return Promise.all(records.map((record) => settler.recoverOne(record)))
    },
    async recoverOne({ nonce, attempt, amountAtomic, chargedAtomic }) {
      const transaction = attempt!.transaction
      if (settler.sendsAgain && !transfers.includes(nonce)) transfers.push(nonce)
      if (transfers.includes(nonce)) return scriptedSettled(transaction, chargedAtomic ?? amountAtomic)
      return { status: 'pending', transaction, reason: 'not_seen' }
    },
    async stillOnChain(records) {
      return records.map(({ nonce }) => (transfers.includes(nonce) ? 'yes' : 'no'))
    },
    async start() {},
    async diagnose() {
      return []
    },
    async close() {},
  }
  return settler
}

/** A settlement of this chain, which has one transfer in each transaction. */
export const scriptedSettled = (transaction: string, chargedAtomic: bigint): SettleOutcome => ({
  status: 'settled',
  transaction,
  event: '0',
  block: 1,
  chargedAtomic,
})

function identify(payment: PaymentPayload, terms: PaymentRequirements): Checked {
  const { payer, nonce, value, isLate, validForMs = 300_000 } = payment.payload as Record<string, unknown>
  if (
    typeof payer !== 'string' ||
    typeof nonce !== 'string' ||
    typeof value !== 'string' ||
    !/^\d+$/.test(value)
  )
    return { ...bad('invalid_payload'), isUnread: true }
  const key = createHash('sha256').update(`${terms.network}|${terms.asset}|${payer}|${nonce}`).digest('hex')
  const identity: PaymentIdentity = {
    key,
    network: terms.network,
    asset: terms.asset,
    payer,
    nonce,
    payTo: terms.payTo,
    amountAtomic: BigInt(value),
    validBeforeMs: Date.now() + Number(validForMs),
  }
  if (value !== terms.amount) return { ...bad('invalid_exact_evm_payload_authorization_value'), identity }
  if (isLate === true) return { ...bad('invalid_exact_evm_payload_authorization_valid_before'), identity }
  return { ok: true, identity }
}

const bad = (reason: string): Refusal => ({ ok: false, reason, message: 'not a payment of this test' })

/** A payment header that the scripted settler accepts. @param more such as `isLate`: its time is over, or `validForMs` */
export function scriptedPayment(
  nonce: string,
  value: string,
  payer = '0x2222222222222222222222222222222222222222',
  more: object = {},
  scheme: Scheme = 'exact',
): string {
  return encodeHeader({
    x402Version: 2,
    accepted: { scheme, network: testNetwork, asset: testAsset },
    payload: { payer, nonce, value, ...more },
  })
}

/** The same payment as a client of x402 version 1 sends it, in `X-PAYMENT`. */
export function scriptedPaymentV1(nonce: string, value: string): string {
  return encodeHeader({
    x402Version: 1,
    scheme: 'exact',
    network: 'base-sepolia',
    payload: { payer: '0x2222222222222222222222222222222222222222', nonce, value },
  })
}
