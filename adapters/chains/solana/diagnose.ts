import type { MintFacts } from './check/mintFacts.ts'
import type { ReadOptions } from './options.ts'
import { type FeePayers, LOW_PAYMENTS, paymentsAhead } from './settle/feePayers.ts'

export interface DiagnoseParts {
  readonly options: ReadOptions
  readonly feePayers: Pick<FeePayers, 'addresses' | 'balances'>
  readonly mintFacts: MintFacts
}

/**
 * What keeps payments on this network from being settled, in words; empty when all is well. Which cluster a node serves
 * is asked by the client itself with the first call.
 */
export async function diagnoseSolana({ options, feePayers, mintFacts }: DiagnoseParts): Promise<string[]> {
  const { network, assets } = options
  const faults: string[] = []
  try {
    for (const [i, lamports] of (await feePayers.balances()).entries()) {
      const payments = paymentsAhead(lamports, options)
      if (payments >= LOW_PAYMENTS) continue
      faults.push(
        `${network}: the fee payer ${feePayers.addresses[i]} has ${lamports} lamports, enough for ${payments} payments at the highest fee allowed. Send it SOL.`,
      )
    }
    for (const asset of assets) {
      const fault = await mintFacts.faultOf(asset)
      if (fault !== undefined) faults.push(`${network}: ${fault}`)
    }
  } catch (error) {
    faults.push(`${network}: ${error instanceof Error ? error.message : 'the node could not be asked'}`)
  }
  if (assets.length === 0) faults.push(`${network}: no token is configured, so nothing can be paid.`)
  return faults
}
