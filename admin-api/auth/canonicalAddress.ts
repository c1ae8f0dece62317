import type { ChainName } from '../../core/domain/network.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'

/** The address in its canonical form. @throws `INVALID_ADDRESS` when it is not one of the chain */
export function canonicalAddress(api: Pick<Api, 'walletProofs'>, chain: ChainName, address: string): string {
  const canonical = api.walletProofs.canonicalAddress(chain, address)
  if (canonical !== undefined) return canonical
  const expected = chain === 'base' ? '0x and 40 hex digits' : 'base58 of 32 bytes'
  throw new TollgateError('INVALID_ADDRESS', `This is not an address on ${chain}; expected ${expected}.`)
}

/** The form under which a wallet is stored: EVM in lower case, because the checksum is only a spelling. */
export const storedAddress = (chain: ChainName, canonical: string): string =>
  chain === 'base' ? canonical.toLowerCase() : canonical
