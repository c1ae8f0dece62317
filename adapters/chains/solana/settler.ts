import type { PaymentIdentity, PaymentRecord } from '../../../core/domain/payment.ts'
import type { Refusal, SettleOutcome, Settler } from '../../../core/ports/chains/settler.ts'
import { readMessage } from '../../../core/solana/message.ts'
import { readWireTransaction, type WireTransaction } from '../../../core/solana/wire.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../core/x402/types.ts'
import { Budgets, type Flight } from '../budgets.ts'
import { admissionRefusals, notStarted, refuse, refuseForNow, sumInFlight } from '../refusals.ts'
import { createMintFacts, type MintFacts } from './check/mintFacts.ts'
import { createPayees } from './check/payees.ts'
import { checkSolanaPayment } from './check/payment.ts'
import { solanaRules } from './check/rules.ts'
import { type SimulationRefusal, simulatedAt, simulatePayment } from './check/simulation.ts'
import { isSelfPaid, readTransfer } from './check/transfer.ts'
import { type ReadOptions, readOptions, type SolanaSettlerOptions } from './options.ts'
import { createRecovery } from './prove/recovery.ts'
import { reasons } from './reasons.ts'
import { createSolanaRpc, type WithContext } from './rpc/nodes.ts'
import { Confirmer } from './settle/confirmations.ts'
import { createFeePayers, type FeePayers, LOW_PAYMENTS, paymentsAhead } from './settle/feePayers.ts'
import { createSettle } from './settle/settlement.ts'
import { cosign } from './settle/transaction.ts'

/** The results of the check. */
type Known = Omit<Prepared, 'verifiedAtMs' | 'seenSlot'>

/** The data of a payment that the settler keeps between check and settlement. */
interface Prepared {
  readonly transaction: WireTransaction
  readonly transferAt: number
  readonly source: string
  readonly feeLamports: bigint
  readonly feePayer: string
  verifiedAtMs: number
  /** The slot at which the node had the payment's block hash. */
  seenSlot: number | null
}

/**
 * Creates the settler of one Solana network, with its own fee payers and nodes. It settles the x402 scheme `exact`, versions 1 and
 * 2. Its creation sends no request.
 *
 * Several processes may share fee payers, because a transaction's id depends only on its message. The message names the fee payer
 * that the buyer signed for. A payment that names any of these fee payers is accepted.
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
  const budgets = new Budgets(options)
  const feePayers = createFeePayers(options, rpc, () => budgets.inFlight)
  const rules = solanaRules({ ...options, feePayers: feePayers.addresses, takesSelfPaid: true })
  const mintFacts = createMintFacts(rpc, assets, clock)
  const payees = createPayees({ rpc, rules, log, againMs: options.payeeAgainMs })
  const confirmer = new Confirmer({ ...options, rpc })
  const settle = createSettle({ options, rpc, confirmer })
  const { recover, stillOnChain } = createRecovery({ options, rpc })
  const prepared = new WeakMap<PaymentIdentity, Prepared>()
  let isClosed = false
  let isStarted = !options.needsStart

  /** The prepared transaction of an identity that this settler returned, or of an equal one. */
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
      return refuse(reasons.settleFault, 'Expected the payment that was checked, got another one.')
    }
    return keep(identity, checked)
  }
  const keep = (
    identity: PaymentIdentity,
    { transaction, transferAt, source, feeLamports, feePayer }: Known,
  ) => {
    const made: Prepared = {
      transaction,
      transferAt,
      source,
      feeLamports,
      feePayer,
      verifiedAtMs: Number.NEGATIVE_INFINITY,
      seenSlot: null,
    }
    prepared.set(identity, made)
    return made
  }

  /** The balance of the token account that pays. */
  const balanceOf = async (source: string): Promise<bigint> => {
    const context = { commitment: simulatedAt }
    const { value } = await rpc.call<WithContext<{ amount: string }>>(
      'getTokenAccountBalance',
      source,
      context,
    )
    return BigInt(value.amount)
  }

  /**
   * Checks whether this process can settle, and then whether the payment is valid on chain.
   * @throws when no node responds
   */
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
    // The slot is reserved only after verification, because any client can send payments that never land. These must not displace
    // payments that do.
    const affords = payments === undefined ? undefined : Number(payments)
    const why = flight.reserve(feeLamports, feePayer, affords)
    if (why === 'means')
      log.error({ network, feePayer, payments }, 'the fee payer can pay for no more settlements')
    if (why !== undefined) return admissionRefusals[why]
    found.verifiedAtMs = clock.now()
    found.seenSlot = verified.slot
    return { ok: true } as const
  }

  /** Finds out whose account is missing or frozen, and how to fix it. */
  const blame = async (
    refused: SimulationRefusal,
    { asset, payTo, payer }: PaymentIdentity,
  ): Promise<Refusal> => {
    const payee = payees.payee(asset, payTo)
    // Without a response from the chain, the refusal blames neither payer nor payee.
    if (!(await payee.refresh())) return refused
    if (payee.fault !== undefined) {
      const message = `The seller cannot be paid in this token yet. Use another payment method of the 402. ${payee.fault}`
      const reason = refused.account === 'missing' ? reasons.receiverAccount : refused.reason
      return { ok: false, reason, message }
    }
    if (refused.account !== 'missing') return refused
    const { symbol } = rules.assets.get(asset)!.asset
    const message = `The buyer's wallet ${payer} has no account of ${symbol} to pay from. Send ${symbol} to the wallet first, which creates the account.`
    return { ok: false, reason: reasons.senderAccount, message }
  }

  return {
    id: feePayers.addresses.map(feePayers.idOf).sort().join('+'),
    network,
    schemes: ['exact'],
    offerExtra: feePayers.offer,
    minPriceAtomic: options.minPriceAtomic,
    check(payment, terms) {
      const checked = checkSolanaPayment(payment, terms, rules)
      if (!checked.ok) return checked
      const { identity } = checked
      // The refusal includes the identity, because the buyer may be repeating a request for an earlier purchase.
      if (budgets.isSpent(identity.payer)) return { ...admissionRefusals.payer_failures, identity }
      keep(identity, checked)
      return { ok: true, identity }
    },
    async verify(payment, terms, identity, { storeId }) {
      if (!isStarted) return notStarted
      const found = prepare(payment, terms, identity)
      if ('ok' in found) return found
      const flight = budgets.take(identity, storeId)
      if (typeof flight === 'string') return admissionRefusals[flight]
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
          'No Solana node responds now. The payment was not used. Try again with the same payment.',
        )
      }
    },
    async settle(payment, terms, identity, store, hold): Promise<SettleOutcome> {
      const found = isStarted ? prepare(payment, terms, identity) : notStarted
      if ('ok' in found) return { ...found, status: 'rejected' }
      const flight = budgets.of(hold) ?? budgets.take(identity, '')
      if (typeof flight === 'string') return { ...admissionRefusals[flight], status: 'rejected' }
      const stopping = { ...notNow, status: 'rejected' } as const
      if (isClosed || !flight.begin()) {
        flight.release()
        return stopping
      }
      let outcome: SettleOutcome = stopping
      try {
        const why = flight.reserve(found.feeLamports, found.feePayer)
        if (why !== undefined) return { ...admissionRefusals[why], status: 'rejected' }
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
        // If the row records that the payment failed on chain, the process that wrote the row has already counted the cost.
        if (record.errorReason === reasons.transactionFailed) continue
        budgets.found(record, outcomes[i]!, costOf(record, outcomes[i]!))
      }
      return outcomes
    },
    booked: (record, outcome) => budgets.booked(record, outcome),
    overtaken: (payment, outcome) => budgets.overtaken(payment, outcome),
    forgetConcluded: (concludedOf) => budgets.forgetConcluded(concludedOf),
    stillOnChain,
    payee: payees.payee,
    async start() {
      await budgets.start()
      isStarted = true
      // There is nothing to adopt, because transactions of one fee payer do not depend on each other. The mints are read
      // now, so that the first payment does not have to wait for this request. The start does not wait for them, because
      // the gateway also starts without its nodes.
      const [asset] = assets
      if (asset === undefined) return
      mintFacts.faultOf(asset).catch((error: unknown) => {
        log.warn({ error, network }, 'no Solana node responds, so payments are refused until a node responds')
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
 * The cost of a payment that recovery found, regardless of the sender. A transaction that never got into a block cost no fee.
 *
 * @returns undefined if the bytes are no payment, because another program wrote the row
 */
function costOf({ attempt }: PaymentRecord, outcome: SettleOutcome): bigint | undefined {
  if (outcome.status === 'failed_final' && outcome.reason === reasons.blockhashExpired) return 0n
  const wire = readWireTransaction(Buffer.from(attempt?.bytes ?? '', 'base64'))
  const message = wire && readMessage(wire.message)
  if (wire === undefined || message === undefined) return undefined
  if (isSelfPaid(wire)) return 0n
  // Read without limits, because the configured limits may have changed since.
  const transfer = readTransfer(message, undefined)
  return 'reason' in transfer ? undefined : transfer.feeLamports
}

const notNow = refuseForNow(reasons.settleFault, 'The settlement could not begin. Try again.')

interface DiagnoseDeps {
  readonly options: ReadOptions
  readonly feePayers: Pick<FeePayers, 'addresses' | 'balances'>
  readonly mintFacts: MintFacts
}

/**
 * Sentences for the operator about why payments on this network cannot be settled. Empty if nothing is wrong. The client checks a
 * node's cluster with its first call, so this function does not.
 */
async function diagnoseSolana({ options, feePayers, mintFacts }: DiagnoseDeps): Promise<string[]> {
  const { network, assets } = options
  const faults: string[] = []
  try {
    for (const [i, lamports] of (await feePayers.balances()).entries()) {
      const payments = paymentsAhead(lamports, options)
      if (payments >= LOW_PAYMENTS) continue
      faults.push(
        `${network}: the fee payer ${feePayers.addresses[i]} has ${lamports} lamports, enough for ${payments} payments at the highest fee allowed. Send SOL to it.`,
      )
    }
    for (const asset of assets) {
      const fault = await mintFacts.faultOf(asset)
      if (fault !== undefined) faults.push(`${network}: ${fault}`)
    }
  } catch (error) {
    faults.push(`${network}: ${error instanceof Error ? error.message : 'the node could not be queried'}`)
  }
  if (assets.length === 0) faults.push(`${network}: no token is configured, so buyers cannot pay.`)
  return faults
}
