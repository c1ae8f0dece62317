import type { PaymentIdentity, PaymentRecord } from '../../../core/domain/payment.ts'
import type { Refusal, SettleOutcome, Settler } from '../../../core/ports/chains/settler.ts'
import { readMessage } from '../../../core/solana/message.ts'
import { readWireTransaction, type WireTransaction } from '../../../core/solana/wire.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'
import { createBudgets, type Flight } from '../budgets.ts'
import { createFinds } from '../finds.ts'
import { noPlaceRefusals, notStarted, refuse, refuseForNow, sumInFlight } from '../refuse.ts'
import { checkSolanaPayment } from './check/checkSolanaPayment.ts'
import { createMintFacts } from './check/mintFacts.ts'
import { createPayees } from './check/payees.ts'
import { type SimulationRefusal, simulatedAt, simulatePayment } from './check/simulate.ts'
import { solanaRules } from './check/solanaRules.ts'
import { readTransfer } from './check/transfer.ts'
import { diagnoseSolana } from './diagnose.ts'
import { readOptions, type SolanaSettlerOptions } from './options.ts'
import { createRecovery } from './prove/recovery.ts'
import { reasons } from './reasons.ts'
import { createSolanaRpc, type WithContext } from './rpc/createSolanaRpc.ts'
import { createConfirmer } from './settle/confirm.ts'
import { cosign, isSelfPaid } from './settle/cosign.ts'
import { createFeePayers } from './settle/feePayers.ts'
import { createSettle } from './settle/settlement.ts'

/** What the check found out. */
type Known = Omit<Prepared, 'verifiedAtMs' | 'seenSlot'>

/** What is known of a payment between its check and its settlement. */
interface Prepared {
  readonly transaction: WireTransaction
  readonly transferAt: number
  readonly source: string
  readonly feeLamports: bigint
  readonly feePayer: string
  verifiedAtMs: number
  /** At which the node knew its block hash. */
  seenSlot: number | null
}

/**
 * Makes the settler of one Solana network with fee payers and nodes of its own: x402 scheme `exact`, versions 1 and 2.
 * Creation sends nothing. Several processes may share fee payers: a transaction's id is made of its message, which names the one
 * that the buyer signed for. Whichever of them it is, the payment is taken.
 *
 * @example
 * const settler = createSolanaSettler({ network, rpcUrls, privateKeys, assets: builtInAssets })
 * await settler.start(openAttempts)
 *
 * @throws {TollgateError} `VALIDATION_ERROR` for a network, key, mint or URL list that could never work
 */
export function createSolanaSettler(given: SolanaSettlerOptions): Settler {
  const options = readOptions(given)
  const { network, assets, clock, log } = options
  const genesis = network.slice('solana:'.length)
  const rpc = createSolanaRpc({ urls: options.rpcUrls, genesis, timeoutMs: options.rpcTimeoutMs, clock, log })
  const budgets = createBudgets(options)
  const finds = createFinds(budgets)
  const feePayers = createFeePayers(options, rpc, () => budgets.inFlight)
  const rules = solanaRules({ ...options, feePayers: feePayers.addresses, takesSelfPaid: true })
  const mintFacts = createMintFacts(rpc, assets, clock)
  const payees = createPayees({ rpc, rules, log, againMs: options.payeeAgainMs })
  const confirmer = createConfirmer({ ...options, rpc })
  const settle = createSettle({ options, rpc, confirmer })
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
  const keep = (
    identity: PaymentIdentity,
    { transaction, transferAt, source, feeLamports, feePayer }: Known,
  ) => {
    const made: Prepared = {
      ...{ transaction, transferAt, source, feeLamports, feePayer },
      verifiedAtMs: Number.NEGATIVE_INFINITY,
      seenSlot: null,
    }
    prepared.set(identity, made)
    return made
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
    const { transaction, transferAt, source, feeLamports, feePayer } = found
    const fault = await mintFacts.faultOf(rules.assets.get(identity.asset)!.asset)
    if (fault !== undefined) {
      log.error({ network, fault }, 'payments in this token are refused')
      return refuseForNow(reasons.verifyFault, fault)
    }
    const { aheadAtomic } = flight
    const [verified, payments, balance] = await Promise.all([
      simulatePayment(rpc, transaction, transferAt),
      feeLamports === 0n ? undefined : feePayers.affords(feePayer),
      aheadAtomic === 0n ? undefined : balanceOf(source),
    ])
    if (!verified.ok) return 'account' in verified ? blame(verified, identity) : verified
    if (balance !== undefined && balance < aheadAtomic + identity.amountAtomic) return sumInFlight
    // Only now: anybody can have as many that never land, and they are not to keep out those that do.
    const affords = payments === undefined ? undefined : Number(payments)
    const why = flight.reserve(feeLamports, feePayer, affords)
    if (why === 'means')
      log.error({ network, feePayer, payments }, 'the fee payer can pay for no more settlements')
    if (why !== undefined) return noPlaceRefusals[why]
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
    id: feePayers.addresses.map(feePayers.idOf).sort().join('+'),
    network,
    scheme: 'exact',
    offerExtra: feePayers.offer,
    minPriceAtomic: options.minPriceAtomic,
    check(payment, terms) {
      const checked = checkSolanaPayment(payment, terms, rules)
      if (!checked.ok) return checked
      const { identity } = checked
      // Known all the same: the buyer may be back for what it has bought.
      if (budgets.isSpent(identity.payer)) return { ...noPlaceRefusals.payer_failures, identity }
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
        const why = flight.reserve(found.feeLamports, found.feePayer)
        if (why !== undefined) return { ...noPlaceRefusals[why], status: 'rejected' }
        const ageMs = Math.abs(clock.now() - found.verifiedAtMs)
        outcome = await settle(
          feePayers.idOf(found.feePayer),
          cosign(found.transaction, feePayers.keyOf(found.feePayer)),
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
        // Whoever has written into the row that it failed on chain has counted it.
        if (record.errorReason === reasons.transactionFailed) continue
        finds.add(record, outcomes[i]!, costOf(record, outcomes[i]!))
      }
      return outcomes
    },
    booked: finds.booked,
    overtaken: budgets.overtaken,
    forgetConcluded: budgets.forgetConcluded,
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
    keys: feePayers.all,
    diagnose: async () => [
      ...(await diagnoseSolana({ options, feePayers, mintFacts })),
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

/**
 * What a payment that was found has cost, whoever sent it. What never got into a block has cost nobody a fee, and the seller its work.
 *
 * @returns undefined for bytes that are no payment, which only a foreign row can have
 */
function costOf({ attempt }: PaymentRecord, outcome: SettleOutcome): bigint | undefined {
  if (outcome.status === 'failed_final' && outcome.reason === reasons.blockhashExpired) return 0n
  const wire = readWireTransaction(Buffer.from(attempt?.bytes ?? '', 'base64'))
  const message = wire && readMessage(wire.message)
  if (wire === undefined || message === undefined) return undefined
  if (isSelfPaid(wire)) return 0n
  // Under any caps: they may have changed since.
  const transfer = readTransfer(message, undefined)
  return 'reason' in transfer ? undefined : transfer.feeLamports
}

const notNow = refuseForNow(reasons.settleFault, 'The settlement could not begin. Try again.')
