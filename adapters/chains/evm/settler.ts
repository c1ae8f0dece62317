import type { PaymentIdentity, PaymentRecord } from '../../../core/domain/payment.ts'
import type { Checked, Refusal, Settler } from '../../../core/ports/settler.ts'
import type { PaymentPayload } from '../../../core/x402/types.ts'
import { createBudgets, type Flight } from '../budgets.ts'
import { noPlaceRefusals, notStarted, refuseForNow } from '../refuse.ts'
import { createAccountCode } from './check/accountCode.ts'
import { createEvmCheck } from './check/check.ts'
import { createContractSignatureCheck } from './check/contractSignature.ts'
import { createVerifyPayment } from './check/verifyPayment.ts'
import { diagnoseEvm, paymentsAhead } from './diagnose.ts'
import { type EvmSettlerOptions, readOptions } from './options.ts'
import { createRecovery } from './prove/recovery.ts'
import { reasons } from './reasons.ts'
import { createEvmRpc } from './rpc/createEvmRpc.ts'
import { createHeadCache, type Head } from './rpc/head.ts'
import { createAffordable } from './settle/affordable.ts'
import { feesFor } from './settle/fees.ts'
import { createPaymentCalls } from './settle/paymentCalls.ts'
import { createReceiptWatch } from './settle/receipts.ts'
import { createSettlement } from './settle/settlement.ts'
import { createSettlingAccount } from './settle/settlingAccount.ts'
import { createSyncSend } from './settle/syncSend.ts'

/**
 * Makes the settler of one EVM network with a key and nodes of its own: x402 scheme `exact` by EIP-3009, versions 1 and
 * 2. Creation sends nothing. One key belongs to one settler of one process: account nonces are counted here.
 *
 * @example
 * const settler = createEvmSettler({ network: 'eip155:8453', rpcUrls, privateKey, assets: builtInAssets })
 * await settler.start(openAttempts)
 *
 * @throws {TollgateError} `VALIDATION_ERROR` for a network, key or URL list that could never work
 */
export function createEvmSettler(given: EvmSettlerOptions): Settler {
  const options = readOptions(given)
  const { network, assets, clock, log, maxGas, confirmations, firstPollMs, pollMs, wsUrl } = options
  const chainId = Number(network.slice('eip155:'.length))
  const rpc = createEvmRpc({ urls: options.rpcUrls, chainId, timeoutMs: options.rpcTimeoutMs, clock, log })
  const account = createSettlingAccount({
    network,
    privateKey: options.privateKey,
    rpc,
    maxGas,
    log,
    storeTimeoutMs: options.storeTimeoutMs,
    strandedMs: options.strandedMs,
    maxFeePerGasWei: options.maxFeePerGasWei,
    async currentFees() {
      const head = await heads.fresh()
      return feesFor(head, options, head.balance - account.committedWei, maxGas)
    },
  })
  const heads = createHeadCache(rpc, account.address, clock, options.headMaxAgeMs)
  const ws = wsUrl === undefined ? undefined : { url: wsUrl, chainId }
  const receipts = createReceiptWatch({ rpc, firstPollMs, pollMs, confirmations, ws, log })
  const budgets = createBudgets(options)
  const affordable = createAffordable(options, account)
  const code = createAccountCode(rpc)
  const calls = createPaymentCalls({ code, factories: options.factories })
  const verifyPayment = createVerifyPayment({ rpc, from: account.address, maxGas })
  const syncSend = createSyncSend({ rpc, clock, log })
  const settle = createSettlement({
    options,
    rpc,
    account,
    heads,
    receipts,
    syncSend,
    budgets,
    affordable,
    calls,
  })
  const { recover, stillOnChain } = createRecovery({ options, rpc, account, heads })
  const check = createEvmCheck({
    network,
    assets,
    clock,
    contractSignature: createContractSignatureCheck({ rpc, code, maxGas, factories: options.factories }),
  })

  let isStarted = () => !options.needsStart

  const withinBudget = (checked: Checked): Checked =>
    checked.ok && budgets.isSpent(checked.identity.payer) ? noPlaceRefusals.payer_failures : checked

  /** Everything that could keep a settlement from being made or paid for, and then the chain. */
  const verifyHeld = async (
    payment: PaymentPayload,
    identity: PaymentIdentity,
    flight: Flight,
  ): Promise<{ readonly ok: true } | Refusal> => {
    const prepared = await calls.prepare(payment, identity)
    if (!prepared.ok) return prepared
    let head: Head
    try {
      head = heads.lately() ?? (await heads.current())
    } catch {
      return refuseForNow(
        reasons.verifyFault,
        'The chain can not be asked now. Try again with the same payment.',
      )
    }
    // Those that are signed are paid for already.
    const affords = affordable(head, Math.max(1, budgets.inFlight - account.inFlight))
    if (!affords.ok) return affords
    if (!flight.reserve(affords.likelyWei)) return noPlaceRefusals.store_gas
    const { call, authorization } = prepared
    return verifyPayment(call, identity.asset, authorization, affords.fees, flight.aheadAtomic)
  }

  return {
    id: account.id,
    network,
    scheme: 'exact',
    isExclusive: true,
    offerExtra: {},
    minPriceAtomic: options.minPriceAtomic,
    check(payment, terms) {
      const checked = check(payment, terms)
      return checked instanceof Promise ? checked.then(withinBudget) : withinBudget(checked)
    },
    async verify(payment, _terms, identity, { storeId }) {
      if (!isStarted()) return notStarted
      const flight = budgets.take(identity, storeId)
      if (typeof flight === 'string') return noPlaceRefusals[flight]
      try {
        const verified = await verifyHeld(payment, identity, flight)
        if (verified.ok) return { ok: true, hold: flight }
        if (verified.transient !== true) flight.refused()
        flight.release()
        return verified
      } catch (error) {
        flight.release()
        throw error
      }
    },
    settle: async (payment, terms, identity, store, hold) =>
      isStarted() ? settle(payment, terms, identity, store, hold) : { ...notStarted, status: 'rejected' },
    async recover(records) {
      if (account.hasGaps) await account.repair()
      const outcomes = await recover(records)
      for (const [i, record] of records.entries()) {
        // What was mined for nothing while it was settled has counted then.
        if (!hasCounted(record)) budgets.note(record, outcomes[i]!)
      }
      return outcomes
    },
    stillOnChain,
    followUp: account.followUp,
    async start(open, mayGoOn = () => true) {
      await budgets.start()
      account.recheck()
      const own = open.filter(({ settler }) => settler === account.id)
      await Promise.all([account.adopt(own), syncSend.probe()])
      isStarted = mayGoOn
    },
    async key() {
      const [head, nonce] = await Promise.all([heads.fresh(), account.nonces()])
      return {
        ...{ address: account.address, balance: head.balance, nonce },
        paymentsLeft: paymentsAhead(head, options),
        inFlight: account.inFlight,
      }
    },
    diagnose: async () => [...(await diagnoseEvm({ options, rpc, heads })), ...budgets.diagnose()],
    async close() {
      receipts.close()
      await account.close()
      await budgets.close()
    },
  }
}

const hasCounted = ({ errorReason }: PaymentRecord): boolean =>
  errorReason === reasons.transaction || errorReason === reasons.transferEvent
