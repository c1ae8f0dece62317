import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { Buyer } from '../../../buyer/buyer.ts'
import { payForUrl } from '../../../buyer/payForUrl.ts'
import type { PayOptions } from '../../../buyer/payOptions.ts'
import type { PayReport } from '../../../buyer/payReport.ts'
import { createPaymentFiles } from '../../../cli/pay/paymentFiles.ts'
import type { ChainFamily } from '../../../core/domain/network.ts'
import { type Answer, type Seller, startSeller } from './seller.ts'

export interface PaidRun {
  readonly report: PayReport
  readonly seller: Seller
  /** How many signatures the wallet made. */
  readonly signatures: number
  /** What the buyer's USDC balance went down by. */
  readonly spent: bigint
  readonly steps: readonly string[]
}

export interface PayOnceDeps {
  readonly family: ChainFamily
  readonly rpcUrl: string
  readonly wallet: () => Buyer
  readonly balance: () => bigint | Promise<bigint>
}

/** Starts a seller, pays it once with a fresh wallet object, and tells what happened. */
export function createPayOnce(
  t: Test,
  { family, rpcUrl, wallet, balance }: PayOnceDeps,
): (respond: Answer, options?: Partial<PayOptions>) => Promise<PaidRun> {
  const stateRoot = mkdtempSync(join(tmpdir(), 'tollgate-pay-'))
  t.teardown(() => rmSync(stateRoot, { recursive: true, force: true }))
  return async (respond, options = {}) => {
    const seller = await startSeller(respond)
    t.teardown(() => seller.close())
    const steps: string[] = []
    let signatures = 0
    const buyer = wallet()
    const counted: Buyer = {
      ...buyer,
      sign: async (...order) => {
        const payment = await buyer.sign(...order)
        signatures++
        return payment
      },
    }
    const before = await balance()
    const report = await payForUrl({
      url: seller.url,
      wallets: { [family]: counted },
      rpcUrl,
      timeoutMs: 20_000,
      retryDelaysMs: [10, 10, 10],
      payments: createPaymentFiles(mkdtempSync(join(stateRoot, 'run-'))),
      onStep: (text) => steps.push(text),
      ...options,
    })
    return { report, seller, signatures, spent: before - (await balance()), steps }
  }
}
