import {
  evmPaymentKey,
  evmPaymentKeyPrefix,
  type PaymentIdentity,
  type PaymentRecord,
} from '../../../core/domain/payment.ts'
import type { Receipt } from '../../../core/evm/transferProof.ts'
import type { Checked, Refusal, Settler } from '../../../core/ports/chains/settler.ts'
import type { PaymentPayload } from '../../../core/x402/types.ts'
import { createBudgets, type Flight } from '../budgets.ts'
import type { TracedPayment } from '../facilitator/chainReader.ts'
import { createFinds } from '../finds.ts'
import { keyIsShared, noPlaceRefusals, notStarted, refuseForNow } from '../refuse.ts'
import { createAccountCode } from './check/accountCode.ts'
import { createEvmCheck } from './check/check.ts'
import { createContractSignatureCheck } from './check/contractSignature.ts'
import { separatorsOf } from './check/plainSignature.ts'
import { createVerifyPayment } from './check/verifyPayment.ts'
import { diagnoseEvm } from './diagnose.ts'
import { type EvmSettlerOptions, readOptions } from './options.ts'
import { createRecovery } from './prove/recovery.ts'
import { reasons } from './reasons.ts'
import { createEvmRpc } from './rpc/createEvmRpc.ts'
import { createBatches } from './settle/batches.ts'
import { costOfFound } from './settle/costOfFound.ts'
import { createEvmKey, type EvmKey } from './settle/evmKey.ts'
import { type Backed, createEvmKeys } from './settle/evmKeys.ts'
import { leastFee } from './settle/fees.ts'
import { createPaymentCalls } from './settle/paymentCalls.ts'
import { createReceiptWatch } from './settle/receipts.ts'
import { createSettlement } from './settle/settlement.ts'
import { createSyncSend } from './settle/syncSend.ts'
import { transfersIn } from './settle/transfersIn.ts'

/**
 * Makes the settler of one EVM network with keys and nodes of its own: x402 scheme `exact` by EIP-3009, versions 1 and
 * 2. Creation sends nothing. A key belongs to one settler of one process at a time: account nonces are counted here. However many
 * keys there are, budgets and what is on its way are counted once.
 *
 * @example
 * const settler = createEvmSettler({ network: 'eip155:8453', rpcUrls, privateKeys, assets: builtInAssets })
 * await settler.start(openAttempts)
 *
 * @throws {TollgateError} `VALIDATION_ERROR` for a network, key or URL list that could never work
 */
export function createEvmSettler(given: EvmSettlerOptions): Settler {
  const options = readOptions(given)
  const { network, assets, clock, log, ask, maxGas, confirmations, firstPollMs, pollMs, wsUrl } = options
  const chainId = Number(network.slice('eip155:'.length))
  const rpc = createEvmRpc({
    urls: options.rpcUrls,
    chainId,
    timeoutMs: options.rpcTimeoutMs,
    ask,
    clock,
    log,
  })
  const ws = wsUrl === undefined ? undefined : { url: wsUrl, chainId }
  const receipts = createReceiptWatch({ rpc, firstPollMs, pollMs, confirmations, ws, log })
  const budgets = createBudgets(options)
  const finds = createFinds(budgets)
  const code = createAccountCode(rpc)
  const calls = createPaymentCalls({
    code,
    factories: options.factories,
    separators: separatorsOf(network, assets),
    maxGas,
  })
  const syncSend = createSyncSend({ rpc, clock, log })
  const prepare = () => Promise.all([budgets.start(), syncSend.probe(), batches.probe()])
  const keys = createEvmKeys(
    options.privateKeys.map((privateKey) =>
      createEvmKey({ options, privateKey, rpc, receipts, syncSend, prepare }),
    ),
  )
  const [first] = keys.all
  const batches = createBatches({ options, rpc, keys })
  // A payment that is alone is joined to nobody.
  const asksPayersCode = () => budgets.inFlight > 1 && batches.isOn
  const verifyPayment = createVerifyPayment({ rpc, code, asksPayersCode })
  /** Whose payers had no code when they were verified. */
  const plain = new WeakSet<Flight>()
  const settle = createSettlement({
    options,
    rpc,
    keys,
    budgets,
    calls,
    batches,
    isPlain: (flight) => plain.has(flight),
    verifyPayment,
  })
  /** Receipts of the transactions of payments that are looked up. */
  const mined = new WeakMap<TracedPayment, Receipt>()
  const { recover, stillOnChain } = createRecovery({
    ...{ options, rpc, heads: first!.heads },
    accounts: keys.all.map(({ account }) => account),
    onReceipt: (record, receipt) => mined.set(record, receipt),
  })
  const check = createEvmCheck({
    network,
    assets,
    clock,
    contractSignature: createContractSignatureCheck({ rpc, code, maxGas, factories: options.factories }),
  })

  /** Its identity stays known: the buyer may be back for what it has bought. */
  const withinBudget = (checked: Checked): Checked =>
    checked.ok && budgets.isSpent(checked.identity.payer)
      ? { ...noPlaceRefusals.payer_failures, identity: checked.identity }
      : checked

  const judge = async (payments: number): Promise<Backed> => {
    try {
      return await keys.judge(payments)
    } catch {
      return refuseForNow(
        reasons.verifyFault,
        'The chain can not be asked now. Try again with the same payment.',
      )
    }
  }
  /**
   * A place, and the means for all that the chain has called good, this one among them; what is signed is paid for already. What it
   * has not is no reason: anybody can have as many that never land.
   */
  const reserve = async (flight: Flight, gas: number): Promise<Refusal | undefined> => {
    const affords = await judge(1)
    if (!affords.ok) return affords
    const why = flight.reserve(BigInt(gas) * affords.gasPriceWei, undefined, affords.payments)
    if (why !== 'means') return why && noPlaceRefusals[why]
    // The log is told what is missing.
    const all = await judge(budgets.waitingFor() + 1)
    return all.ok ? noPlaceRefusals.means : all
  }

  /** Another installation signs with each key that this process may sign with. */
  const refusesAll = (): Refusal | undefined => {
    const started = keys.all.filter((key) => key.isStarted)
    return started.length > 0 && started.every(({ account }) => account.isShared) ? keyIsShared : undefined
  }

  /** Everything that could keep a settlement from being made or paid for, and then the chain. */
  const verifyHeld = async (
    payment: PaymentPayload,
    identity: PaymentIdentity,
    flight: Flight,
  ): Promise<{ readonly ok: true } | Refusal> => {
    const prepared = await calls.prepare(payment, identity)
    if (!prepared.ok) return prepared
    // Nobody gives way before the chain has called it good.
    const affords = await judge(1)
    if (!affords.ok) return affords
    const { asset } = identity
    const [verified] = await Promise.all([
      verifyPayment(affords.from, prepared, asset, affords.fees, flight.aheadAtomic),
      keys.lookForOthers(),
    ])
    if (!keys.isStarted) return notStarted
    const refusal = refusesAll()
    if (refusal !== undefined) return refusal
    // Only now: anybody can have as many that never land, and they are not to keep out those that do.
    const refused = verified.ok ? await reserve(flight, prepared.gas) : undefined
    if (refused !== undefined) return refused
    // A wallet that has to be made first has no code either.
    if (verified.ok && prepared.isPlain && code.remembered(prepared.authorization.from) === false)
      plain.add(flight)
    return verified
  }

  return {
    id: idOf(network, keys.all),
    network,
    scheme: 'exact',
    isExclusive: true,
    offerExtra: () => none,
    minPriceAtomic: options.minPriceAtomic,
    check(payment, terms) {
      const checked = check(payment, terms)
      return checked instanceof Promise ? checked.then(withinBudget) : withinBudget(checked)
    },
    async verify(payment, _terms, identity, { storeId }) {
      if (!keys.isStarted) return notStarted
      const flight = budgets.take(identity, storeId)
      if (typeof flight === 'string') return noPlaceRefusals[flight]
      try {
        const verified = await verifyHeld(payment, identity, flight)
        if (verified.ok) return { ok: true, hold: flight }
        // One that is used stands on chain, for anybody to read and to present again: that is no failure of who signed it.
        if (verified.transient !== true && verified.reason !== reasons.nonceUsed) flight.refused()
        flight.release()
        return verified
      } catch (error) {
        flight.release()
        throw error
      }
    },
    settle: async (payment, terms, identity, store, hold) =>
      keys.isStarted ? settle(payment, terms, identity, store, hold) : { ...notStarted, status: 'rejected' },
    async recover(records) {
      await Promise.all(keys.all.map(({ account }) => account.hasGaps && account.repair()))
      const outcomes = await recover(records)
      const head = first!.heads.lately()
      const likelyWei = head && BigInt(maxGas) * leastFee(head, options)
      for (const [i, record] of records.entries()) {
        // Whoever has written so into the row has counted what was mined for nothing.
        if (hasCounted(record)) continue
        const outcome = outcomes[i]!
        finds.add(record, outcome, costOfFound(record, outcome, mined.get(record), likelyWei, options))
      }
      return outcomes
    },
    booked: finds.booked,
    overtaken: budgets.overtaken,
    forgetConcluded: budgets.forgetConcluded,
    stillOnChain,
    paymentsOf: ({ bytes }) =>
      transfersIn(bytes).map(({ token, from, nonce }) =>
        evmPaymentKey(evmPaymentKeyPrefix(network, token), from, nonce),
      ),
    keys: keys.all,
    async start(open, mayGoOn) {
      const ofKey = (id: string) => open.filter(({ settler }) => settler === id)
      await Promise.all(keys.all.map((key) => key.start(ofKey(key.id), mayGoOn)))
    },
    refusesAll,
    diagnose: async () => [
      ...(await diagnoseEvm({ options, rpc, keys: keys.all })),
      ...budgets.diagnose(),
      ...keys.troubles(),
    ],
    async close() {
      receipts.close()
      await Promise.all(keys.all.map(({ account }) => account.close()))
      await budgets.close()
    },
  }
}

const none = {}

const hasCounted = ({ errorReason }: PaymentRecord): boolean =>
  errorReason === reasons.transaction || errorReason === reasons.transferEvent

/** That of its key; where there are several, a name of all of them together. */
const idOf = (network: string, keys: readonly EvmKey[]): string =>
  `evm:${network}:${keys
    .map(({ account }) => account.address.toLowerCase())
    .sort()
    .join('+')}`
