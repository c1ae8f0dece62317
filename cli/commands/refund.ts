import type { Command } from 'commander'
import { jsonOption, outputOf } from '../output/createOutput.ts'
import { callGateway } from '../runtime/callGateway.ts'
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
      .description('Mark a purchase as refunded, after you have sent the money back in a transaction.')
      .argument('<purchase>', 'id of the purchase')
      .argument(
        '<transaction>',
        'hash (EVM) or signature (Solana) of the transaction that sent the money back',
      ),
  )
    .addHelpText(
      'after',
      `
This command sends no money. First send at least the amount, in the same token, from the wallet that was paid to the buyer's wallet. The
gateway then verifies that transaction on chain. A refund that was dropped from the chain can be replaced by another transaction in
the same way, once the first can no longer be included. The store's API key is read from TOLLGATE_API_KEY.`,
    )
    .option(...jsonOption)
    .action(async (purchase: string, txHash: string, flags: GatewayFlags & { json?: true }) => {
      const output = outputOf(flags)
      try {
        const path = `/api/v1/purchases/${encodeURIComponent(purchase)}/refunds`
        const key = process.env['TOLLGATE_API_KEY']
        const refunded = await callGateway<Refunded>(gatewayUrl(flags), path, { txHash }, key)
        const { id, amount, currency, buyerWallet } = refunded
        output.result(
          refunded,
          `Recorded the refund of purchase ${id}: ${amount} ${currency} to ${buyerWallet}`,
        )
      } catch (error) {
        process.exitCode = output.fail(error)
      }
    })
}
