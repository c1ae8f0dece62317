import type { Command } from 'commander'
import { jsonOption, outputOf } from '../output/createOutput.ts'
import { askGateway } from '../runtime/askGateway.ts'
import { type GatewayFlags, gatewayUrl, takesGateway } from '../runtime/gatewayUrl.ts'

interface Refunded {
  readonly id: string
  readonly status: string
  readonly amount: string
  readonly currency: string
  readonly buyerWallet: string
}

export function registerRefund(program: Command): void {
  takesGateway(
    program
      .command('refund')
      .description('Mark a purchase as refunded by the transaction that sent the money back.')
      .argument('<purchase>', 'id of the purchase')
      .argument('<transaction>', 'hash (EVM) or signature (Solana) of the transfer back'),
  )
    .addHelpText(
      'after',
      `
Sends no money. First send at least the amount, in the same token, from the wallet that was paid to the buyer's; the
gateway then verifies that transaction on chain. The store's API key is read from TOLLGATE_API_KEY.`,
    )
    .option(...jsonOption)
    .action(async (purchase: string, txHash: string, flags: GatewayFlags & { json?: true }) => {
      const output = outputOf(flags)
      try {
        const path = `/api/v1/purchases/${encodeURIComponent(purchase)}/refunds`
        const key = process.env['TOLLGATE_API_KEY']
        const refunded = await askGateway<Refunded>(gatewayUrl(flags), path, { txHash }, key)
        const { id, amount, currency, buyerWallet } = refunded
        output.result(refunded, `Purchase ${id} is refunded: ${amount} ${currency} to ${buyerWallet}`)
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
}
