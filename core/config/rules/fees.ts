import { canonicalAddress } from '../../domain/address.ts'
import { chainFamilyOf } from '../../domain/network.ts'
import { mistake } from './finding.ts'
import type { Rule } from './rule.ts'

/** Rules about fees: what sellers pay goes to an address, with no slip of the keyboard in it. */
export const feeRules: readonly Rule[] = [
  {
    reads: ['fees'],
    *check({ config: { fees } }) {
      for (const chain of ['base', 'solana'] as const) {
        const address = fees.payTo[chain]
        const family = chainFamilyOf(chain)
        if (address === undefined || canonicalAddress(family, address) !== undefined) continue
        const expected =
          family === 'solana'
            ? '32 bytes in base58'
            : '0x and 40 hexadecimal digits, in quotes; in mixed case with the right checksum'
        yield mistake(
          `/fees/payTo/${chain}`,
          `fees.payTo.${chain} is no address of its chain: expected ${expected}.`,
          'Copy it from the wallet anew: what sellers pay goes there and can not be called back.',
        )
      }
    },
  },
]
