import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import type { Command } from 'commander'
import t from 'tap'
import { createPipeline } from '../cli/program.ts'
import { checkDocument } from '../core/config/check/checkDocument.ts'
import { parseConfig } from '../core/config/loadConfig.ts'
import type { AnyGatewayPlugin } from '../core/plugin/gateway.ts'
import { builtInPlugins } from '../plugins/builtIn.ts'
import { vaultConfigSchema } from '../vault/config/vaultConfigSchema.ts'
import { builtInVaultPlugins } from '../vault/plugins/builtIn.ts'

const root = resolve(import.meta.dirname, '..')
const guides = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...globSync('docs/**/*.md', { cwd: root })]
const textOf = (file: string) => readFileSync(join(root, file), 'utf8')

/** By npm, regardless of `files`. */
const alwaysShipped = ['README.md', 'LICENSE', 'package.json']

/** The text without its code, where brackets mean something else. */
const proseOf = (text: string) => text.replace(/^```[\s\S]*?^```$/gm, '').replace(/`[^`\n]*`/g, '')

const blocksOf = (text: string, language: string) =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(([, code]) => code!)

/** The anchors that headings get: lower case, no punctuation, hyphens for spaces. */
const anchorsOf = (text: string) =>
  [...text.replace(/^```[\s\S]*?^```$/gm, '').matchAll(/^#+ (.+)$/gm)].map(([, title]) =>
    title!
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )

t.test('every link of the guides leads somewhere', async (t) => {
  let seen = 0
  for (const guide of guides) {
    for (const [, target] of proseOf(textOf(guide)).matchAll(/\]\(([^)]+)\)/g)) {
      if (/^https?:/.test(target!)) continue
      seen++
      const [path, anchor] = target!.split('#')
      const file = path === '' ? guide : relative(root, resolve(root, dirname(guide), path!))
      t.ok(existsSync(join(root, file)), `${guide} → ${target}`)
      if (anchor !== undefined && file.endsWith('.md'))
        t.ok(anchorsOf(textOf(file)).includes(anchor), `${guide} → ${target} is a heading`)
    }
  }
  t.ok(seen > 80, `${seen} links were looked at`)
})

t.test('what the guides refer to comes with the package, but for sources', async (t) => {
  const { files } = JSON.parse(textOf('package.json')) as { files: string[] }
  const isShipped = (file: string) =>
    files.some(
      (part) => file === part || `${file}/` === part || (part.endsWith('/') && file.startsWith(part)),
    )
  let seen = 0
  // Those who change the sources have them.
  const ofSources = /^(docs\/decisions\/|CONTRIBUTING)/
  for (const guide of guides.filter((one) => !ofSources.test(one))) {
    for (const [, target] of proseOf(textOf(guide)).matchAll(/\]\(([^)#]+)[^)]*\)/g)) {
      if (/^https?:/.test(target!)) continue
      const file = relative(root, resolve(root, dirname(guide), target!))
      if (
        /^(adapters|bench|cli|core|gateway|plugins|web)\/.*\.ts$/.test(file) ||
        /^(core\/ports|CONTRIBUTING.md)$/.test(file)
      )
        continue
      seen++
      t.ok(alwaysShipped.includes(file) || isShipped(file), `${guide} → ${target}`)
    }
  }
  t.ok(seen > 80, `${seen} links were looked at`)
})

t.test('every tollgate command in the guides exists, with its options', async (t) => {
  const program = createPipeline()
  let seen = 0
  for (const guide of guides) {
    for (const line of blocksOf(textOf(guide), 'sh').flatMap((code) => code.split('\n'))) {
      const call = /(?:^|\s)(?:npx )?tollgate ([a-z][^#|]*)/.exec(line)?.[1]
      if (call === undefined) continue
      seen++
      const command = commandOf(program, call.trim().split(/\s+/))
      if (command === undefined) {
        t.fail(`${guide}: tollgate ${call}`)
        continue
      }
      const known = command.options.flatMap(({ long, short }) => [long, short])
      for (const [option] of call.matchAll(/(?<=\s)--?[a-z][a-z-]*/g))
        t.ok(known.includes(option), `${guide}: ${line.trim()}`)
    }
  }
  t.ok(seen > 10, `${seen} commands were looked at`)
})

function commandOf(parent: Command, [word, ...rest]: string[]): Command | undefined {
  const found = parent.commands.find((command) => command.name() === word)
  // `tollgate vault` is a command itself, and has others below it.
  const isWhole = found?.commands.length === 0 || rest.length === 0 || rest[0]!.startsWith('-')
  return found === undefined || isWhole ? found : commandOf(found, rest)
}

t.test('every configuration in the guides holds', async (t) => {
  // What the guides have their reader set.
  const env = {
    DB_PASSWORD: 'secret',
    TOLLGATE_OPERATOR_TOKEN: 'a'.repeat(64),
    TOLLGATE_FACILITATOR_EVM_KEY: `0x${'1'.repeat(64)}`,
    TOLLGATE_CHANNELS_KEY: `0x${'2'.repeat(64)}`,
    FEES_WALLET_BASE: `0x${'1'.repeat(40)}`,
    FEES_WALLET_SOLANA: '1'.repeat(32),
  }
  let seen = 0
  for (const guide of guides) {
    for (const code of blocksOf(textOf(guide), 'yaml')) {
      if (guide.includes('/vault-')) {
        const file = join(root, guide)
        await t.resolves(
          checkDocument(code, { file, env: {}, schema: vaultConfigSchema, plugins: vaultPlugins }),
          code,
        )
        seen++
        continue
      }
      const missing = {
        'publicUrl:': 'publicUrl: https://pay.example.com\n',
        // A token needs its network.
        ...(code.includes('assets:') && {
          'networks:':
            'networks: { eip155:8453: { facilitator: { url: https://facilitator.example.com } } }\n',
        }),
      }
      const added = Object.entries(missing).filter(([key]) => !code.includes(key))
      const text = added.map(([, line]) => line).join('') + code
      await t.resolves(parseConfig(text, { file: `${guide}.yaml`, env, plugins }), `${guide}:\n${code}`)
      seen++
    }
  }
  t.ok(seen >= 30, `${seen} configurations were looked at`)
})

const vaultPlugins = {
  load: (use: string) =>
    builtInVaultPlugins.find(({ name }) => name === use) ?? {
      name: use,
      options: { type: 'object', additionalProperties: false, properties: {} } as const,
    },
}

/** A plugin without options stands for files and packages that are not here. */
const plugins = {
  names: builtInPlugins.map(({ name }) => name),
  defaults: builtInPlugins.map(({ name }) => name),
  load: async (use: string): Promise<AnyGatewayPlugin> =>
    builtInPlugins.find(({ name }) => name === use) ?? {
      name: use,
      api: 1,
      options: { type: 'object', additionalProperties: false, properties: {} },
      needs: [],
      setup: () => ({ route: () => undefined }),
    },
}

t.test('the labels that a guide names are on the pages', async (t) => {
  const labels: Readonly<Record<string, readonly string[]>> = {
    'docs/how-to/vault-approve.md': [
      'Not fully decoded',
      'From the agent',
      'from the offer that the agent sent',
      'Sign out',
    ],
    'docs/how-to/pay-the-fees.md': ['Pay fees'],
    'docs/how-to/monitor.md': ['Settling keys', 'Suspensions', 'Check and lift'],
    'docs/how-to/set-prices-by-request.md': ['Prices by request'],
    'docs/how-to/set-prices-by-use.md': ['Price by use'],
  }
  const pages = ['web/**/*.ts', 'vault/page/app/**/*.ts']
    .flatMap((pattern) => globSync(pattern, { cwd: root }))
    .filter((file) => !/\.test\.ts$|^web\/dist\//.test(file))
    .map((file) => textOf(file).toLowerCase())
  for (const [guide, named] of Object.entries(labels)) {
    const text = textOf(guide).replaceAll(/\s+/g, ' ')
    for (const label of named) {
      t.ok(text.includes(label), `${guide} names ${label}`)
      t.ok(
        pages.some((page) => page.includes(label.toLowerCase())),
        `a page shows ${label}`,
      )
    }
  }
})
