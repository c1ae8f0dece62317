import type { Bench } from './bench.ts'
import type { Measured } from './figures.ts'
import { shippedProgram } from './harness/shippedProgram.ts'
import type { TogetherOptions, TogetherResult } from './servers/together.ts'

/** As many as the gateway takes at once by its defaults, roundly. */
const atOnce = 900

/**
 * Payments that come at the same time, with blocks every two seconds and one settling key: how many are settled in a second, and
 * the gas of each, beside the way with one transaction for each payment. All of it is on one machine, the chain as well.
 */
export const together: Bench = {
  keys: ['batch_payments_per_s', 'batch_gas_per_payment'],
  async run({ servers, progress, isQuick }) {
    // Once for both jobs.
    shippedProgram()
    const measure = (options: TogetherOptions) =>
      servers.job<TogetherResult>('together.ts', options, 'unpinned')
    const many = await measure({ together: 32, atOnce, calls: isQuick ? 1_800 : 5_400 })
    // A key has at most 256 transactions on their way.
    const single = await measure({ together: 1, atOnce: 200, calls: isQuick ? 200 : 600 })
    progress(`payments at once, a block every 2 s: ${words(many)}`)
    progress(`  one transaction for each: ${words(single)}`)
    return {
      batch_payments_per_s: many.paymentsPerSecond,
      batch_gas_per_payment: many.gasPerPayment,
    } satisfies Measured
  },
}

const words = (result: TogetherResult): string => {
  const { paymentsPerSecond, gasPerPayment, transactions, payments, p50Ms, cpuUs } = result
  return (
    `${paymentsPerSecond.toFixed(0)} a second, ${(payments / transactions).toFixed(1)} in a transaction, ` +
    `${gasPerPayment.toFixed(0)} gas each, p50 ${p50Ms.toFixed(0)} ms, ${cpuUs.toFixed(0)} µs of CPU each`
  )
}
