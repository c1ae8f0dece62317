import type { PaymentIdentity } from '../../../core/domain/payment.ts'
import type { Checked, Settler } from '../../../core/ports/settler.ts'
import { createFailureBudget } from '../failureBudget.ts'
import { createAccountCode } from './accountCode.ts'
import { createEvmCheck } from './check.ts'
import { createContractSignatureCheck } from './contractSignature.ts'
import { diagnoseEvm } from './diagnose.ts'
import { feesFor } from './fees.ts'
import { createHeadCache } from './head.ts'
import { type EvmSettlerOptions, readOptions } from './options.ts'
import { createPaymentCalls } from './paymentCalls.ts'
import { reasons } from './reasons.ts'
import { createReceiptWatch } from './receipts.ts'
import { createRecovery } from './recovery.ts'
import { refuse } from './refuse.ts'
import { createRpc } from './rpc.ts'
import { createSettlement } from './settlement.ts'
import { createSettlingAccount } from './settlingAccount.ts'
import { createSyncSend } from './syncSend.ts'
import { createVerifyPayment } from './verifyPayment.ts'

/**
 * Makes the settler of one EVM network with a key and nodes of its own: x402 scheme `exact` by EIP-3009, versions 1 and
 * 2. Creation sends nothing. One key belongs to one settler of one process: account nonces are counted here.
 *
 * @example
 * const settler = createEvmSettler({ network: 'eip155:8453', rpcUrls, privateKey, assets: builtInAssets })
 * await settler.start(unresolved)
 *
 * @throws {TollgateError} `VALIDATION_ERROR` for a network, key or URL list that could never work
 */
export function createEvmSettler(given: EvmSettlerOptions): Settler {
  const options = readOptions(given)
  const { network, assets, clock, log, maxGas, confirmations, firstPollMs, pollMs, wsUrl } = options
  const chainId = Number(network.slice('eip155:'.length))
  const rpc = createRpc({ urls: options.rpcUrls, chainId, timeoutMs: options.rpcTimeoutMs, clock, log })
  const account = createSettlingAccount({
    network,
    privateKey: options.privateKey,
    rpc,
    maxGas,
    log,
    currentFees: async () => feesFor(await heads.fresh(), options),
  })
  const heads = createHeadCache(rpc, account.address, clock, options.headMaxAgeMs)
  const ws = wsUrl === undefined ? undefined : { url: wsUrl, chainId }
  const receipts = createReceiptWatch({ rpc, firstPollMs, pollMs, confirmations, ws, log })
  const budget = createFailureBudget({ ...options.failureBudget, clock })
  const code = createAccountCode(rpc)
  const calls = createPaymentCalls({ code, factories: options.factories })
  const verifyPayment = createVerifyPayment({ rpc, from: account.address, maxGas })
  const syncSend = createSyncSend({ rpc, clock, log })
  const settle = createSettlement({ options, rpc, account, heads, receipts, syncSend, budget, calls })
  const { recover, stillOnChain } = createRecovery({ options, rpc, account, heads, receipts })
  const check = createEvmCheck({
    network,
    assets,
    clock,
    contractSignature: createContractSignatureCheck({ rpc, code, maxGas, factories: options.factories }),
  })

  const withinBudget = (checked: Checked): Checked =>
    checked.ok && budget.isSpent(checked.identity.payer)
      ? refuse(
          reasons.payerBudget,
          'Too many of this payer’s payments failed on chain lately. Try again later.',
        )
      : checked

  return {
    network,
    scheme: 'exact',
    offerExtra: {},
    check(payment, terms) {
      const checked = check(payment, terms)
      return checked instanceof Promise ? checked.then(withinBudget) : withinBudget(checked)
    },
    async verify(payment, _terms, identity: PaymentIdentity) {
      const prepared = await calls.prepare(payment, identity)
      if (!prepared.ok) return prepared
      // What the fees will be is read meanwhile, at most once in `headMaxAgeMs`: the settlement does not wait for it then.
      void heads.current().catch(() => {})
      const verified = await verifyPayment(prepared.call, identity.asset, prepared.authorization)
      if (!verified.ok && verified.transient !== true) budget.note(identity.payer)
      return verified
    },
    settle,
    recover,
    stillOnChain,
    async start(unresolved) {
      const attempts = unresolved.flatMap(({ attempt }) => (attempt?.settler === account.id ? [attempt] : []))
      await Promise.all([account.adopt(attempts), syncSend.probe()])
    },
    diagnose: () => diagnoseEvm({ options, rpc, heads }),
    async close() {
      receipts.close()
      await account.close()
    },
  }
}
