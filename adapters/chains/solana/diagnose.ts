import type { MintFacts } from './check/mintFacts.ts'
import { lamportsPerSignature } from './check/transfer.ts'
import type { ReadOptions } from './options.ts'
import type { Rpc, WithContext } from './rpc/createSolanaRpc.ts'

/** What an account without data must keep to exist (rent exemption), in lamports. */
const keptLamports = 890_880n
/** Fewer payments than this ahead is worth a word. */
const lowPayments = 100n

export interface DiagnoseParts {
  readonly options: ReadOptions
  readonly feePayer: string
  readonly rpc: Rpc
  readonly mintFacts: MintFacts
}

/**
 * What keeps payments on this network from being settled, in words; empty when all is well. Which cluster a node serves
 * is asked by the client itself with the first call.
 */
export async function diagnoseSolana({
  options,
  feePayer,
  rpc,
  mintFacts,
}: DiagnoseParts): Promise<string[]> {
  const { network, assets } = options
  const faults: string[] = []
  try {
    const { value } = await rpc.call<WithContext<number>>('getBalance', feePayer, { commitment: 'confirmed' })
    const payments = paymentsAhead(BigInt(value), options)
    if (payments < lowPayments) {
      faults.push(
        `${network}: the fee payer ${feePayer} has ${value} lamports, enough for ${payments} payments at the highest fee allowed. Send it SOL.`,
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

/** How many settlements a fee payer with so much can pay for, each at the highest fee allowed. */
export function paymentsAhead(lamports: bigint, options: ReadOptions): bigint {
  const priority = BigInt(options.maxComputeUnits) * BigInt(options.maxMicroLamportsPerUnit)
  const highestFee = 2n * lamportsPerSignature + (priority + 999_999n) / 1_000_000n
  return lamports <= keptLamports ? 0n : (lamports - keptLamports) / highestFee
}
