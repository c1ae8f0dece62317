import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { VaultPluginEntry } from '../../../vault/host/pipelines.ts'
import { createPluginFinder } from '../../../vault/sandbox/findPlugin.ts'

interface Test {
  teardown(work: () => unknown): unknown
}

/**
 * A plugin written to a folder of its own, found as the configuration's are.
 *
 * @param setup the body of its `setup({…}, { ports })`
 * @param files puts further files into its folder
 * @param more further members of the plugin, such as `needs: ['clock']`
 */
export async function pluginFrom(
  t: Test,
  setup: string,
  {
    name = 'odd',
    more = 'needs: []',
    before = '',
    files = () => {},
  }: { name?: string; more?: string; before?: string; files?: (folder: string) => void } = {},
): Promise<VaultPluginEntry> {
  const folder = mkdtempSync(join(tmpdir(), 'plugin-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, name))
  files(join(folder, name))
  writeFileSync(
    join(folder, name, 'index.mjs'),
    `${before}
export default {
  name: '${name}',
  api: 1,
  options: { type: 'object', additionalProperties: false, properties: {} },
  ${more},
  setup(options, { ports }) {
    ${setup}
  },
}`,
  )
  const plugin = await createPluginFinder([], folder, join(folder, 'home')).load(`./${name}/index.mjs`)
  return { plugin, options: {} }
}
