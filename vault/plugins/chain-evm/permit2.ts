/** Permit2, the same on every EVM chain. @see https://github.com/Uniswap/permit2 */
export const permit2Address = '0x000000000022D473030F116dDEE9F6B43aC78BA3'

/**
 * From here on an allowance is shown as unlimited: more than any token has, and below the largest uint160 (Permit2) and
 * uint256 (EIP-20), which tokens do not even count down.
 */
export const unlimitedFrom = 2n ** 128n

/** What an allowance of all that there is counts as; also the latest time that a message can name. */
export const everything = 2n ** 256n - 1n
