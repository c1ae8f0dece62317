import type { Command } from 'commander'
import { UsageError } from '../output/exitCodes.ts'
import { type CommonFlags, told } from './flags.ts'
import { readSecretFile } from './secretFiles.ts'

interface BridgeFlags extends Pick<CommonFlags, 'json'> {
  readonly url: string
  readonly tokenFile?: string
}

/** `tollgate vault mcp` */
export function registerMcp(vault: Command): void {
  vault
    .command('mcp')
    .description('Connect an MCP client that starts its own servers to a running vault.')
    .option('--url <url>', "the vault's MCP address", 'http://127.0.0.1:8420/mcp')
    .option('--token-file <file>', "file with the agent's token (default: TOLLGATE_VAULT_TOKEN)")
    .addHelpText(
      'after',
      `
This command passes messages between standard input and output and the vault. It has no password and no key. The client, or
an agent in the client, can read only the token of that agent.

Example:
  tollgate vault --mode http-mcp
  tollgate vault mcp --token-file token`,
    )
    .action((flags: BridgeFlags) =>
      told(
        flags,
        async (output) => {
          const token =
            flags.tokenFile === undefined
              ? process.env['TOLLGATE_VAULT_TOKEN']
              : readSecretFile(flags.tokenFile, (text) => output.warn(text))
          if (token === undefined || token === '')
            throw new UsageError("Expected the agent's token in --token-file or TOLLGATE_VAULT_TOKEN.")
          if (!URL.canParse(flags.url)) throw new UsageError(`Expected an address, got --url ${flags.url}.`)
          const { bridgeMcp } = await import('../../vault/mcp/bridge.ts')
          await bridgeMcp(new URL(flags.url), token)
        },
        // Standard output carries the protocol.
        process.stderr as never,
      ),
    )
}
