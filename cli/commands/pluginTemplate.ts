import { optionsList } from '../../core/config/docs.ts'
import type { OptionsSchema } from '../../core/plugin/options.ts'

export interface ContractImports {
  readonly plugin: string
  readonly options: string
}

/** `node` is Node's own runner, which needs no installation. `tap` runs Tollgate's own tests. */
export type TestRunner = 'node' | 'tap'

/** The files of a new plugin: names and contents. */
export type PluginFiles = Readonly<Record<string, string>>

/**
 * The files of a working plugin. The plugin adds a header to responses, and its test proves that.
 *
 * @param name such as `my-plugin`. The caller has checked it
 * @param contract where the plugin imports the contract's types from. The plugin imports only types, so it and its test run
 *   without an installed package
 */
export function pluginFiles(name: string, contract: ContractImports, runner: TestRunner): PluginFiles {
  return {
    'index.ts': index(name, contract.plugin),
    'options.ts': options(name, contract.options),
    'index.test.ts': test(name, contract.plugin, runner),
    'README.md': readme(name),
  }
}

const defaultText = 'hello'

const index = (name: string, contract: string): string => `import type { GatewayPlugin } from '${contract}'
import { options } from './options.ts'

/** Adds the header \`x-${name}\` to the responses of a link. (Describe here what your plugin does, and why it runs in this phase.) */
export default {
  name: '${name}',
  // The version of the plugin contract.
  api: 1,
  options,
  // The ports that it uses: counters, clock, log, egress … Ports that are not listed are not available.
  needs: [],
  // Called once per configuration. The options are validated and complete.
  setup({ text, paidOnly }) {
    return {
      // Called once per version of a link. Return undefined if there is nothing to do; its calls then cost nothing.
      route({ isPaid }) {
        if (paidOnly && !isPaid) return undefined
        return {
          // Called once per call. The phases are guard, pay, claim, verify, forward, settle, record, respond.
          // Return undefined to continue, a reply to stop, or a promise of either.
          // After the response come deliver and log, which return nothing. The payment data that a hook reads or writes is
          // declared above as slots: { claim: { reads: ['payment'] } }.
          guard(x) {
            x.addHeader('x-${name}', text)
          },
        }
      },
    }
  },
} satisfies GatewayPlugin<typeof options, never>
`

/** The options of the template's text, for the table in its README. A test compares the two. */
export const templateOptions = {
  type: 'object',
  additionalProperties: false,
  properties: {
    text: {
      type: 'string',
      minLength: 1,
      default: defaultText,
      description: 'Value of the header.',
    },
    paidOnly: {
      type: 'boolean',
      default: false,
      description: 'Add the header to paid links only.',
    },
  },
} as const satisfies OptionsSchema

const options = (name: string, contract: string): string => `import type { OptionsSchema } from '${contract}'

/** What \`with:\` may say under \`use: ./${name}/index.ts\`: the type, the check, the defaults and the docs in one. */
export const options = {
  type: 'object',
  additionalProperties: false,
  properties: {
    text: {
      type: 'string',
      minLength: 1,
      default: '${defaultText}',
      description: 'Value of the header.',
    },
    paidOnly: {
      type: 'boolean',
      default: false,
      description: 'Add the header to paid links only.',
    },
  },
} as const satisfies OptionsSchema
`

const testImports = {
  node: "import assert from 'node:assert/strict'\nimport { test } from 'node:test'",
  tap: "import t from 'tap'",
}

function test(name: string, contract: string, runner: TestRunner): string {
  const isTap = runner === 'tap'
  const [open, close] = isTap ? ['t.test(', ', (t) => {'] : ['test(', ', () => {']
  const equal = isTap ? 't.strictSame' : 'assert.deepEqual'
  const end = isTap ? '\n  t.end()\n})' : '\n})'
  return `${testImports[runner]}
import type { Exchange, RouteInfo } from '${contract}'
import plugin from './index.ts'

/** Runs the plugin for one call and returns the headers that it added. Undefined if the plugin does not run for the link. */
function headersOf(options: { text: string; paidOnly: boolean }, isPaid: boolean): string[] | undefined {
  const hooks = plugin.setup(options).route({ isPaid } as RouteInfo)
  if (hooks === undefined) return undefined
  // The fields of a call that the plugin uses.
  const headers: string[] = []
  const call = { addHeader: (name: string, value: string) => headers.push(name, value) }
  hooks.guard(call as unknown as Exchange)
  return headers
}

${open}'every response has the header'${close}
  ${equal}(headersOf({ text: 'hi', paidOnly: false }, false), ['x-${name}', 'hi'])${end}

${open}'with paidOnly, a free link does not run the plugin at all'${close}
  ${equal}(headersOf({ text: 'hi', paidOnly: true }, false), undefined)
  ${equal}(headersOf({ text: 'hi', paidOnly: true }, true), ['x-${name}', 'hi'])${end}
`
}

const readme = (name: string): string => `# ${name}

A Tollgate plugin that adds the header \`x-${name}\` to the responses of a link.

\`\`\`yaml
plugins:
  - use: ./${name}/index.ts # relative to the configuration file
    with:
      text: ${defaultText}
\`\`\`

## Options

<!-- options:start -->
${optionsList(templateOptions)}
<!-- options:end -->

## What it costs

One function call per request, and nothing for links that it does not run for.

## Test

\`\`\`sh
node --test ${name}/index.test.ts
\`\`\`
`
