import { encodeFunctionData, erc20Abi, parseUnits, serializeTransaction } from 'viem'

export const usdcOnBase = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913'
export const payee = '0x000000000000000000000000000000000000dEaD'

/** A policy with room for small payments in USDC on Base: 1 without asking, 5 at once, 20 a day. */
export const smallPayments = {
  assets: [{ chain: 'base', symbol: 'USDC', perTransaction: '5', perDay: '20', autoApproveUpTo: '1' }],
  recipients: 'any',
}

/** The unsigned bytes of a USDC transfer on Base; the nonce makes one different from another. */
export const usdcTransfer = (amount: string, nonce = 0): string =>
  serializeTransaction({
    chainId: 8453,
    type: 'eip1559',
    nonce,
    gas: 60_000n,
    maxFeePerGas: 100_000_000n,
    maxPriorityFeePerGas: 1n,
    to: usdcOnBase,
    data: encodeFunctionData({
      abi: erc20Abi,
      functionName: 'transfer',
      args: [payee, parseUnits(amount, 6)],
    }),
  })

/** The body of a request to sign such a transfer. */
export const signBody = (amount: string, nonce = 0) => ({
  chain: 'base',
  agent_name: 'test',
  amount: Number(amount),
  currency: 'USDC',
  unsigned_tx: usdcTransfer(amount, nonce),
})
