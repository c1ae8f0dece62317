import type { PaymentIdentity } from '../../../core/domain/payment.ts'
import type { Refusal, SettleOutcome, Settler } from '../../../core/ports/settler.ts'
import type { WireTransaction } from '../../../core/solana/wire.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'
import { createBudgets, type Flight } from '../budgets.ts'
import { noPlaceRefusals, notStarted, refuse, refuseForNow, sumInFlight } from '../refuse.ts'
import { checkSolanaPayment } from './check/checkSolanaPayment.ts'
import { createMintFacts } from './check/mintFacts.ts'
import { createPayees } from './check/payees.ts'
import { type SimulationRefusal, simulatedAt, simulatePayment } from './check/simulate.ts'
import { solanaRules } from './check/solanaRules.ts'
import { diagnoseSolana, paymentsAhead } from './diagnose.ts'
import { readOptions, type SolanaSettlerOptions } from './options.ts'
import { createRecovery } from './prove/recovery.ts'
import { reasons } from './reasons.ts'
import { createSolanaRpc, type WithContext } from './rpc/createSolanaRpc.ts'
import { createConfirmer } from './settle/confirm.ts'
import { cosign } from './settle/cosign.ts'
import { parseFeePayerKey } from './settle/parseFeePayerKey.ts'
import { createSettle } from './settle/settlement.ts'

/** What the check found out. */
type Known = Omit<Prepared, 'verifiedAtMs' | 'seenSlot'>

/** What is known of a payment between its check and its settlement. */
interface Prepared {
  readonly transaction: WireTransaction
  readonly transferAt: number
  readonly source: string
  readonly feeLamports: bigint
  verifiedAtMs: number
  /** At which the node knew its block hash. */
  seenSlot: number | null
}

/** The fee payer's balance is read at most so often, in ms. */
const BALANCE_AGE_MS = 10_000

/**
 * Makes the settler of one Solana network with a fee payer and nodes of its own: x402 scheme `exact`, versions 1 and 2.
 * Creation sends nothing. Several processes may share one fee payer: a transaction's id is made of its message.
 *
 * @example
 * const settler = createSolanaSettler({ network, rpcUrls, privateKey, assets: builtInAssets })
 * await settler.start(openAttempts)
 *
 * @throws {TollgateError} `VALIDATION_ERROR` for a network, key, mint or URL list that could never work
 */
export function createSolanaSettler(given: SolanaSettlerOptions): Settler {
  const options = readOptions(given)
  const { network, assets, clock, log } = options
  const key = parseFeePayerKey(given.privateKey)
  const rules = solanaRules({ ...options, feePayers: [key.address], takesSelfPaid: true })
  const genesis = network.slice('solana:'.length)
  const rpc = createSolanaRpc({ urls: options.rpcUrls, genesis, timeoutMs: options.rpcTimeoutMs, clock, log })
  const mintFacts = createMintFacts(rpc, assets, clock)
  const payees = createPayees({ rpc, rules, log, againMs: options.payeeAgainMs })
  const budgets = createBudgets(options)
  const confirmer = createConfirmer({ ...options, rpc })
  const settlerId = `svm:${network}:${key.address}`
  const settle = createSettle({ settlerId, options, rpc, confirmer })
  const { recover, stillOnChain } = createRecovery({ options, rpc })
  const prepared = new WeakMap<PaymentIdentity, Prepared>()
  let isClosed = false
  let isStarted = !options.needsStart

  /** The transaction of an identity that this settler gave out, or of one that stands for the same payment. */
  const prepare = (
    payment: PaymentPayload,
    terms: PaymentRequirements,
    identity: PaymentIdentity,
  ): Prepared | Refusal => {
    const known = prepared.get(identity)
    if (known !== undefined) return known
    const checked = checkSolanaPayment(payment, terms, rules)
    if (!checked.ok) return checked
    if (checked.identity.key !== identity.key) {
      return refuse(reasons.settleFault, 'The payment is not the one that was checked.')
    }
    return keep(identity, checked)
  }
  const keep = (identity: PaymentIdentity, { transaction, transferAt, source, feeLamports }: Known) => {
    const made: Prepared = {
      ...{ transaction, transferAt, source, feeLamports },
      verifiedAtMs: Number.NEGATIVE_INFINITY,
      seenSlot: null,
    }
    prepared.set(identity, made)
    return made
  }

  /** The fee payer's lamports. Rejects when no node says. */
  const lamports = async (): Promise<bigint> => {
    const context = { commitment: 'confirmed' }
    const { value } = await rpc.call<WithContext<number>>('getBalance', key.address, context)
    return BigInt(value)
  }

  let funds: { readonly atMs: number; readonly payments: Promise<bigint> } | undefined
  /** How many settlements the fee payer can pay for, as read lately. Rejects when no node says. */
  const affordable = (): Promise<bigint> => {
    if (funds !== undefined && Math.abs(clock.now() - funds.atMs) < BALANCE_AGE_MS) return funds.payments
    const payments = lamports().then((balance) => paymentsAhead(balance, options))
    const asked = { atMs: clock.now(), payments }
    payments.catch(() => {
      if (funds === asked) funds = undefined
    })
    funds = asked
    return payments
  }

  /** What the payer has on the account that pays. */
  const balanceOf = async (source: string): Promise<bigint> => {
    const context = { commitment: simulatedAt }
    const { value } = await rpc.call<WithContext<{ amount: string }>>(
      'getTokenAccountBalance',
      source,
      context,
    )
    return BigInt(value.amount)
  }

  /** Everything that could keep a settlement from being made or paid for. @throws when no node answers */
  const verifyHeld = async (found: Prepared, identity: PaymentIdentity, flight: Flight) => {
    const { transaction, transferAt, source, feeLamports } = found
    if (!flight.reserve(feeLamports)) return noPlaceRefusals.store_gas
    const fault = await mintFacts.faultOf(rules.assets.get(identity.asset)!.asset)
    if (fault !== undefined) {
      log.error({ network, fault }, 'payments in this token are refused')
      return refuseForNow(reasons.verifyFault, fault)
    }
    const { aheadAtomic } = flight
    const [verified, payments, balance] = await Promise.all([
      simulatePayment(rpc, transaction, transferAt),
      feeLamports === 0n ? undefined : affordable(),
      aheadAtomic === 0n ? undefined : balanceOf(source),
    ])
    if (!verified.ok) return 'account' in verified ? blame(verified, identity) : verified
    if (payments !== undefined && payments < BigInt(budgets.inFlight)) {
      log.error({ network, payments }, 'the fee payer can pay for no more settlements')
      return refuseForNow(
        reasons.settleFault,
        'Settlement is stopped for now. Try again with the same payment; nothing was charged.',
      )
    }
    if (balance !== undefined && balance < aheadAtomic + identity.amountAtomic) return sumInFlight
    found.verifiedAtMs = clock.now()
    found.seenSlot = verified.slot
    return { ok: true } as const
  }

  /** Whose account is missing or frozen, and what to do. */
  const blame = async (
    refused: SimulationRefusal,
    { asset, payTo, payer }: PaymentIdentity,
  ): Promise<Refusal> => {
    const payee = payees.payee(asset, payTo)
    // Without an answer nobody is blamed.
    if (!(await payee.look())) return refused
    if (payee.fault !== undefined) {
      const message = `The seller can not be paid in this token yet; pay another entry of the 402. ${payee.fault}`
      const reason = refused.account === 'missing' ? reasons.receiverAccount : refused.reason
      return { ok: false, reason, message }
    }
    if (refused.account !== 'missing') return refused
    const { symbol } = rules.assets.get(asset)!.asset
    const message = `The buyer's wallet ${payer} has no account of ${symbol} to pay from. Send ${symbol} to it first; that makes the account.`
    return { ok: false, reason: reasons.senderAccount, message }
  }

  return {
    id: settlerId,
    network,
    scheme: 'exact',
    offerExtra: { feePayer: key.address },
    minPriceAtomic: options.minPriceAtomic,
    check(payment, terms) {
      const checked = checkSolanaPayment(payment, terms, rules)
      if (!checked.ok) return checked
      const { identity } = checked
      if (budgets.isSpent(identity.payer)) return noPlaceRefusals.payer_failures
      keep(identity, checked)
      return { ok: true, identity }
    },
    async verify(payment, terms, identity, { storeId }) {
      if (!isStarted) return notStarted
      const found = prepare(payment, terms, identity)
      if ('ok' in found) return found
      const flight = budgets.take(identity, storeId)
      if (typeof flight === 'string') return noPlaceRefusals[flight]
      try {
        const verified = await verifyHeld(found, identity, flight)
        if (verified.ok) return { ok: true, hold: flight }
        flight.release()
        return verified
      } catch (error) {
        flight.release()
        log.warn({ error, network }, 'a Solana payment could not be verified')
        return refuseForNow(
          reasons.verifyFault,
          'No Solana node answers now. The payment was not used; try it again.',
        )
      }
    },
    async settle(payment, terms, identity, store, hold): Promise<SettleOutcome> {
      const found = isStarted ? prepare(payment, terms, identity) : notStarted
      if ('ok' in found) return { ...found, status: 'rejected' }
      const flight = budgets.of(hold) ?? budgets.take(identity, '')
      if (typeof flight === 'string') return { ...noPlaceRefusals[flight], status: 'rejected' }
      const stopping = { ...notNow, status: 'rejected' } as const
      if (isClosed || !flight.begin()) {
        flight.release()
        return stopping
      }
      let outcome: SettleOutcome = stopping
      try {
        if (!flight.reserve(found.feeLamports)) return { ...noPlaceRefusals.store_gas, status: 'rejected' }
        const ageMs = Math.abs(clock.now() - found.verifiedAtMs)
        outcome = await settle(
          cosign(found.transaction, key),
          identity,
          { seenSlot: found.seenSlot, isFresh: ageMs < options.preflightAfterMs },
          store,
        )
        return outcome
      } finally {
        flight.end(outcome)
      }
    },
    async recover(records) {
      const outcomes = await recover(records)
      for (const [i, record] of records.entries()) {
        // What failed on chain while it was settled has counted then.
        if (record.errorReason === reasons.transactionFailed) continue
        const outcome = outcomes[i]!
        const isFree = outcome.status === 'failed_final' && outcome.reason === reasons.blockhashExpired
        // What never got into a block has cost nobody a fee, and the seller its work.
        budgets.note(record, outcome, isFree ? 0n : undefined)
      }
      return outcomes
    },
    stillOnChain,
    payee: payees.payee,
    async start() {
      await budgets.start()
      isStarted = true
      // Transactions of one fee payer do not depend on each other, so there is nothing to take up. Reading the mints now
      // saves the first payment a call; it is not waited for, because the gateway starts without its nodes as well.
      const [asset] = assets
      if (asset === undefined) return
      mintFacts.faultOf(asset).catch((error: unknown) => {
        log.warn({ error, network }, 'no Solana node answers; payments are refused until one does')
      })
    },
    async key() {
      const balance = await lamports()
      return {
        ...{ address: key.address, balance, nonce: null },
        ...{ paymentsLeft: paymentsAhead(balance, options), inFlight: budgets.inFlight },
      }
    },
    diagnose: async () => [
      ...(await diagnoseSolana({ options, feePayer: key.address, rpc, mintFacts })),
      ...budgets.diagnose(),
    ],
    async close() {
      isClosed = true
      confirmer.close()
      payees.close()
      await budgets.close()
    },
  }
}

const notNow = refuseForNow(reasons.settleFault, 'The settlement could not begin. Try again.')
