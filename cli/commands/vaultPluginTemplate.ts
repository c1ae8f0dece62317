import { optionsList } from '../../core/config/docs.ts'
import type { OptionsSchema } from '../../core/plugin/options.ts'
import type { ContractImports, PluginFiles, TestRunner } from './pluginTemplate.ts'

/**
 * The files of a working vault plugin. The plugin requires the owner's approval for large amounts, and its test proves that.
 *
 * @param name such as `my-plugin`. The caller has checked it
 * @param contract where the plugin imports the contract's types from. The plugin imports only types
 */
export function vaultPluginFiles(name: string, contract: ContractImports, runner: TestRunner): PluginFiles {
  return {
    'index.ts': index(name, contract.plugin),
    'options.ts': options(name, contract.options),
    'index.test.ts': test(contract.plugin, runner),
    'README.md': readme(name),
  }
}

const index = (name: string, contract: string): string => `import type { VaultPlugin } from '${contract}'
import { options } from './options.ts'

/** Requires the owner's approval for large amounts of a currency. (Describe here what your plugin does, and why it runs in this phase.) */
export default {
  name: '${name}',
  // The version of the plugin contract.
  api: 1,
  options,
  // The ports that it uses: clock, log, egress, approvals, store. Ports that are not listed are not available.
  needs: [],
  // Called once, when the vault starts. The options are validated and complete.
  setup({ currency, above }) {
    return {
      // Called once per operation. Return undefined if there is nothing to do for it.
      route(operation) {
        if (operation !== 'vault_sign_tx') return undefined
        return {
          // Called once per request. The phases are identify, authorize, approve, perform, audit.
          // Return undefined to continue, ask or deny, or a promise of these. An error refuses the request.
          authorize(x) {
            if (x.input['currency'] !== currency || Number(x.input['amount']) <= above) return undefined
            return { decision: 'ask', reason: \`More than \${above} \${currency}.\` }
          },
        }
      },
    }
  },
} satisfies VaultPlugin<typeof options, never>
`

/** The options of the template's text, for the table in its README. A test compares the two. */
export const vaultTemplateOptions = {
  type: 'object',
  additionalProperties: false,
  properties: {
    currency: {
      type: 'string',
      minLength: 1,
      default: 'USDC',
      description: 'Currency that the rule applies to.',
    },
    above: {
      type: 'number',
      minimum: 0,
      default: 10,
      description: 'The owner must approve amounts above this.',
    },
  },
} as const satisfies OptionsSchema

const options = (name: string, contract: string): string => `import type { OptionsSchema } from '${contract}'

/** What \`with:\` may say under \`use: ./${name}/index.ts\`: the type, the check, the defaults and the docs in one. */
export const options = {
  type: 'object',
  additionalProperties: false,
  properties: {
    currency: { type: 'string', minLength: 1, default: 'USDC', description: 'Currency that the rule applies to.' },
    above: { type: 'number', minimum: 0, default: 10, description: 'The owner must approve amounts above this.' },
  },
} as const satisfies OptionsSchema
`

const testImports = {
  node: "import assert from 'node:assert/strict'\nimport { test } from 'node:test'",
  tap: "import t from 'tap'",
}

function test(contract: string, runner: TestRunner): string {
  const isTap = runner === 'tap'
  const [open, close] = isTap ? ['t.test(', ', (t) => {'] : ['test(', ', () => {']
  const equal = isTap ? 't.equal' : 'assert.equal'
  const end = isTap ? '\n  t.end()\n})' : '\n})'
  return `${testImports[runner]}
import type { VaultExchange, VaultOperation } from '${contract}'
import plugin from './index.ts'

/** The plugin's reason for approval. Undefined if it does not run for the operation. */
function decisionOf(operation: VaultOperation, input: object): string | undefined {
  const hooks = plugin.setup({ currency: 'USDC', above: 10 }).route(operation)
  if (hooks === undefined) return undefined
  // The field of a request that the plugin reads.
  return hooks.authorize({ input } as unknown as VaultExchange)?.reason ?? 'nothing'
}

${open}'large amounts need approval'${close}
  ${equal}(decisionOf('vault_sign_tx', { currency: 'USDC', amount: 11 }), 'More than 10 USDC.')
  ${equal}(decisionOf('vault_sign_tx', { currency: 'USDC', amount: 10 }), 'nothing')
  ${equal}(decisionOf('vault_sign_tx', { currency: 'SOL', amount: 11 }), 'nothing')${end}

${open}'other operations do not run the plugin at all'${close}
  ${equal}(decisionOf('vault_read', {}), undefined)${end}
`
}

const readme = (name: string): string => `# ${name}

A plugin for Tollgate's vault that requires the owner's approval for large amounts.

\`\`\`yaml
plugins:
  - use: ./${name}/index.ts # relative to the configuration file, vault.yaml
    with:
      above: 10
\`\`\`

## Options

<!-- options:start -->
${optionsList(vaultTemplateOptions)}
<!-- options:end -->

## Test

\`\`\`sh
node --test ${name}/index.test.ts
\`\`\`
`
