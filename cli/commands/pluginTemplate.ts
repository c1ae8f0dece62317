import { optionsTable } from '../../core/config/docs.ts'
import type { OptionsSchema } from '../../core/plugin/options.ts'

export interface ContractImports {
  readonly plugin: string
  readonly options: string
}

/** `node` needs nothing installed; `tap` is what the repository of Tollgate runs its own tests with. */
export type TestRunner = 'node' | 'tap'

/** A new plugin: file names and their texts. */
export type PluginFiles = Readonly<Record<string, string>>

/**
 * The files of a plugin that works as it stands: it adds a header to answers, and its test proves that.
 *
 * @param name     such as `my-plugin`; checked by the caller.
 * @param contract where the plugin contract's types are imported from. Types only, so that nothing has to be installed
 *                 to run the plugin or its test.
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

/** Adds the header \`x-${name}\` to the answers of a link. (Say here what your plugin does, and why it is where it is.) */
export default {
  name: '${name}',
  // The version of the plugin contract.
  api: 1,
  options,
  // The ports that it uses: counters, clock, log, egress … What is not listed is not there.
  needs: [],
  // Once per configuration. The options are checked and complete.
  setup({ text, paidOnly }) {
    return {
      // Once per version of a link: undefined means that there is nothing to do, and costs its calls nothing.
      route({ isPaid }) {
        if (paidOnly && !isPaid) return undefined
        return {
          // Once per call. A phase is one of guard, pay, claim, verify, forward, settle, record, respond.
          // Answer undefined to go on, a reply to stop, or a promise of either.
          // After the answer come deliver and log, which answer nothing. What a hook reads or leaves of a payment is
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

/** The same options as in the template's text, for the table in its README; a test holds the two together. */
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
      description: 'Work for links that cost money, and leave free ones alone.',
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
      description: 'Work for links that cost money, and leave free ones alone.',
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

/** Runs the plugin for one call and gives the headers it added; undefined when it does not work for the link. */
function headersOf(options: { text: string; paidOnly: boolean }, isPaid: boolean): string[] | undefined {
  const hooks = plugin.setup(options).route({ isPaid } as RouteInfo)
  if (hooks === undefined) return undefined
  // The part of a call that the plugin touches.
  const headers: string[] = []
  const call = { addHeader: (name: string, value: string) => headers.push(name, value) }
  hooks.guard(call as unknown as Exchange)
  return headers
}

${open}'every answer carries the header'${close}
  ${equal}(headersOf({ text: 'hi', paidOnly: false }, false), ['x-${name}', 'hi'])${end}

${open}'with paidOnly, a free link does not run the plugin at all'${close}
  ${equal}(headersOf({ text: 'hi', paidOnly: true }, false), undefined)
  ${equal}(headersOf({ text: 'hi', paidOnly: true }, true), ['x-${name}', 'hi'])${end}
`
}

const readme = (name: string): string => `# ${name}

A Tollgate plugin that adds the header \`x-${name}\` to the answers of a link.

\`\`\`yaml
plugins:
  - use: ./${name}/index.ts # relative to the configuration file
    with:
      text: ${defaultText}
\`\`\`

## Options

<!-- options:start -->
${optionsTable(templateOptions)}
<!-- options:end -->

## What it costs

One call of a function per request, and nothing for links that it leaves alone.

## Test

\`\`\`sh
node --test ${name}/index.test.ts
\`\`\`
`
