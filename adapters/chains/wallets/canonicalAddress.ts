import { base58 } from '@scure/base'
import type { ChainName } from '../../../core/domain/network.ts'
import { addressForm, checksumAddress } from '../../../core/evm/address.ts'

/** 32 bytes are 32 to 44 base58 digits. */
const base58Form = /^[1-9A-HJ-NP-Za-km-z]{32,44}$/

/**
 * An address in its one spelling, so that equal text is the same wallet: checksummed on EVM (EIP-55), base58 of 32 bytes
 * on Solana. Mixed case with a wrong checksum is refused: it is how a mistyped address shows.
 *
 * @returns undefined when it is no address of the chain
 */
export function canonicalAddress(chain: ChainName, address: string): string | undefined {
  return chain === 'solana' ? canonicalSolana(address) : canonicalEvm(address)
}

function canonicalEvm(address: string): string | undefined {
  if (!addressForm.test(address)) return undefined
  const digits = address.slice(2)
  const checksummed = checksumAddress(address.toLowerCase())
  const isOneCase = digits === digits.toLowerCase() || digits === digits.toUpperCase()
  return isOneCase || address === checksummed ? checksummed : undefined
}

function canonicalSolana(address: string): string | undefined {
  if (!base58Form.test(address)) return undefined
  const bytes = base58.decode(address)
  // Base58 has one spelling a value; encoding it again costs little and proves that this was it.
  return bytes.length === 32 && base58.encode(bytes) === address ? address : undefined
}
