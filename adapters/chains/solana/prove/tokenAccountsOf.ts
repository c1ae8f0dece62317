import { base58 } from '@scure/base'
import { readAddress } from '../../../../core/solana/address.ts'
import { associatedTokenAddress } from '../../../../core/solana/associatedTokenAddress.ts'
import { tokenProgramBytes } from '../../../../core/solana/programs.ts'

/** The wallet's associated accounts for the mint, one a token program; a mint is of one program, so one can hold it. */
export function tokenAccountsOf(wallet: string, mint: string): ReadonlySet<string> {
  const [owner, token] = [readAddress(wallet), readAddress(mint)]
  if (owner === undefined || token === undefined) return new Set()
  const programs = Object.values(tokenProgramBytes)
  return new Set(programs.map((program) => base58.encode(associatedTokenAddress(owner, program, token))))
}
