import { Ajv, type ErrorObject } from 'ajv'
import type { OptionsSchema } from '../../plugin/options.ts'
import { childPointer, isInside, type Pointer, parentPointer, setAt, valueAt } from '../read/pointer.ts'
import { formats } from './formats.ts'

/** Checks one object of options, and fills in the defaults in place. */
export type Validate = (options: object) => readonly ErrorObject[]

const compiled = new WeakMap<OptionsSchema, Validate>()
/** One instance for all schemas, because each new instance would compile the meta-schema again. */
let ajv: Ajv | undefined

function createAjv(): Ajv {
  const made = new Ajv({
    allErrors: true,
    useDefaults: true,
    verbose: true,
    strict: true,
    allowUnionTypes: true,
    validateSchema: false,
  })
  for (const [name, { test }] of Object.entries(formats)) made.addFormat(name, test)
  return made
}

/**
 * Compiles the check of a schema. The result is cached by schema object, because compiling takes several ms.
 *
 * @param isOurs true to trust that the schema itself is valid. Tests check the built-in schemas, and a check here would double the
 *   time at startup
 * @throws if the schema itself is invalid, which is a mistake of the plugin's author
 */
export function compileSchema(schema: OptionsSchema, isOurs = false): Validate {
  const known = compiled.get(schema)
  if (known !== undefined) return known
  // The cache is not by name, because plugins of different authors may have the same name, and a changed file has a new schema.
  ajv ??= createAjv()
  let validate: ReturnType<Ajv['compile']>
  try {
    if (!isOurs) void ajv.validateSchema(schema, true)
    validate = ajv.compile(schema)
  } finally {
    ajv.removeSchema(schema)
  }
  const check: Validate = (options) => (validate(options) ? [] : (validate.errors ?? []))
  compiled.set(schema, check)
  return check
}

/**
 * Validates, and repairs two differences that are not mistakes. A key without a value counts as not set. A value that consists of
 * one `${NAME}` is converted to the number or boolean that the option expects, because the environment contains only texts. A text
 * written in the file is never converted.
 *
 * @param isWholeVariable whether the value at a pointer consists of one `${NAME}`
 */
export function validateAndMend(
  validate: Validate,
  options: object,
  isWholeVariable: (pointer: Pointer) => boolean,
): readonly ErrorObject[] {
  for (;;) {
    const errors = validate(options)
    const mended = errors.filter((error) => mend(options, error, isWholeVariable))
    if (mended.length === 0) return errors
  }
}

function mend(options: object, error: ErrorObject, isWholeVariable: (pointer: Pointer) => boolean): boolean {
  const { instancePath: pointer, keyword, params } = error
  if (pointer === '' || (keyword !== 'type' && keyword !== 'enum')) return false
  const value = valueAt(options, pointer)
  if (value === null && !isItem(options, pointer)) {
    setAt(options, pointer, undefined)
    return true
  }
  if (keyword !== 'type' || typeof value !== 'string' || !isWholeVariable(pointer)) return false
  const converted = convert(value, params['type'])
  if (converted === undefined) return false
  setAt(options, pointer, converted)
  return true
}

const isItem = (options: object, pointer: Pointer): boolean =>
  Array.isArray(valueAt(options, parentPointer(pointer)))

function convert(text: string, type: unknown): number | boolean | undefined {
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : undefined
  const isNumber =
    type === 'integer' ? /^-?\d{1,15}$/ : type === 'number' ? /^-?\d{1,15}(\.\d{1,15})?$/ : undefined
  return isNumber?.test(text) ? Number(text) : undefined
}

/** Leaves out errors that only follow from another error, so that each mistake is reported once. */
export function withoutEchoes(errors: readonly ErrorObject[]): ErrorObject[] {
  const wrongTypes = errors.filter((e) => e.keyword === 'type').map((e) => e.instancePath)
  const wrongKeys = errors.flatMap((e) =>
    e.propertyName === undefined ? [] : [childPointer(e.instancePath, e.propertyName)],
  )
  return errors.filter(({ keyword, instancePath }) => {
    if (keyword === 'propertyNames' || keyword === 'if') return false
    if (wrongKeys.some((pointer) => isInside(instancePath, pointer))) return false
    return keyword === 'type' || !wrongTypes.some((pointer) => isInside(instancePath, pointer))
  })
}
