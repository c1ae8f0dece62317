import { optionsTable } from '../../core/config/docs.ts'
import type { OptionsSchema } from '../../core/plugin/options.ts'
import type { ContractImports, PluginFiles, TestRunner } from './pluginTemplate.ts'

/**
 * The files of a vault plugin that works as it stands: it has the owner asked for large amounts, and its test proves that.
 *
 * @param name     such as `my-plugin`; checked by the caller.
 * @param contract where the plugin contract's types are imported from; types only.
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

/** Has the owner asked for large amounts of a currency. (Say here what your plugin does, and why it is where it is.) */
export default {
  name: '${name}',
  // The version of the plugin contract.
  api: 1,
  options,
  // The ports that it uses: clock, log, egress, approvals, store. What is not listed is not there.
  needs: [],
  // Once, when the vault starts. The options are checked and complete.
  setup({ currency, above }) {
    return {
      // Once per operation: undefined means that there is nothing to do for it.
      route(operation) {
        if (operation !== 'vault_sign_tx') return undefined
        return {
          // Once per request. A phase is one of identify, authorize, approve, perform, audit.
          // Answer undefined to go on, ask or deny, or a promise of these. What it throws refuses the request.
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

/** The same options as in the template's text, for the table in its README; a test holds the two together. */
export const vaultTemplateOptions = {
  type: 'object',
  additionalProperties: false,
  properties: {
    currency: {
      type: 'string',
      minLength: 1,
      default: 'USDC',
      description: 'The currency that is looked at.',
    },
    above: { type: 'number', minimum: 0, default: 10, description: 'The owner is asked above this amount.' },
  },
} as const satisfies OptionsSchema

const options = (name: string, contract: string): string => `import type { OptionsSchema } from '${contract}'

/** What \`with:\` may say under \`use: ./${name}/index.ts\`: the type, the check, the defaults and the docs in one. */
export const options = {
  type: 'object',
  additionalProperties: false,
  properties: {
    currency: { type: 'string', minLength: 1, default: 'USDC', description: 'The currency that is looked at.' },
    above: { type: 'number', minimum: 0, default: 10, description: 'The owner is asked above this amount.' },
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

/** What the plugin says; undefined when it has nothing to do with the operation. */
function saidOf(operation: VaultOperation, input: object): string | undefined {
  const hooks = plugin.setup({ currency: 'USDC', above: 10 }).route(operation)
  if (hooks === undefined) return undefined
  // The part of a request that the plugin looks at.
  return hooks.authorize({ input } as unknown as VaultExchange)?.reason ?? 'nothing'
}

${open}'large amounts are asked for'${close}
  ${equal}(saidOf('vault_sign_tx', { currency: 'USDC', amount: 11 }), 'More than 10 USDC.')
  ${equal}(saidOf('vault_sign_tx', { currency: 'USDC', amount: 10 }), 'nothing')
  ${equal}(saidOf('vault_sign_tx', { currency: 'SOL', amount: 11 }), 'nothing')${end}

${open}'other operations do not run the plugin at all'${close}
  ${equal}(saidOf('vault_read', {}), undefined)${end}
`
}

const readme = (name: string): string => `# ${name}

A plugin of Tollgate's vault that has the owner asked for large amounts.

\`\`\`yaml
plugins:
  - use: ./${name}/index.ts # relative to the configuration file, vault.yaml
    with:
      above: 10
\`\`\`

## Options

<!-- options:start -->
${optionsTable(vaultTemplateOptions)}
<!-- options:end -->

## Test

\`\`\`sh
node --test ${name}/index.test.ts
\`\`\`
`
