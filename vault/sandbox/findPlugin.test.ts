import t from 'tap'
import { compileSchema } from '../../core/config/check/validate.ts'
import type { OptionsSchema } from '../../core/plugin/options.ts'
import { filesOf } from './findPlugin.ts'

const path = { type: 'string', format: 'path', description: 'A file.' } as const
const object = { type: 'object', additionalProperties: false, description: 'Files.' } as const

t.test(
  'a plugin may read the files that its owner wrote, and none of its own defaults, wherever they stand',
  async (t) => {
    const options: OptionsSchema = {
      type: 'object',
      additionalProperties: false,
      properties: {
        written: path,
        usual: { ...path, default: '/secret/1' },
        section: { ...object, default: { file: '/secret/2' }, properties: { file: path } },
        list: { type: 'array', description: 'Files.', items: path, default: ['/secret/../secret/3'] },
        table: {
          type: 'object',
          description: 'Files.',
          additionalProperties: path,
          default: { a: '/secret/4' },
        },
        outer: {
          ...object,
          default: { inner: { file: '/secret/5' } },
          properties: { inner: { ...object, properties: { file: path } } },
        },
      },
    }
    const given = { written: '/owner/1', section: undefined } as Record<string, unknown>
    t.strictSame(compileSchema(options)(given), [])
    t.match(given, { outer: { inner: { file: '/secret/5' } } }, 'defaults are filled in')
    given['list'] = ['/secret/3']
    const where = { use: './x.mjs', isBuiltIn: false, baseDir: '/config', home: '/home', names: [] }
    t.strictSame(filesOf({ name: 'x', options, needs: [], where }, given), ['/owner/1'])
    const own = { ...given, section: { file: '/owner/2' }, list: ['/owner/3', '/secret/3'] }
    t.strictSame(filesOf({ name: 'x', options, needs: [], where }, own), ['/owner/1', '/owner/2', '/owner/3'])
  },
)
