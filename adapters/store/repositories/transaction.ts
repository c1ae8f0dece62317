/** A request of a method to its transaction. */
export type Request =
  | {
      readonly does: 'one' | 'all' | 'run'
      readonly strings: TemplateStringsArray
      readonly slots: readonly Slot[]
    }
  | { readonly does: 'hold'; readonly names: readonly string[] }
  | { readonly does: 'storeNow' }

/**
 * A method of a repository or a part of one. Each `yield*` is one request to the database. A method is a generator and not an async
 * function, so that it can wait for nothing but the database. SQLite's writer runs it to its end in one go.
 */
export type Steps<T> = Generator<Request, T, unknown>

/**
 * The transaction of a method. An error rolls all of it back. It may run again from its beginning, so the method must have no
 * effect outside the transaction. Every method locks rows before names, so that transactions do not deadlock. A read after a lock
 * sees the commit of the lock's previous holder.
 */
export interface Tx {
  /** Wall-clock time when the method was called, in ms since 1970. */
  readonly nowMs: number
  one<Row>(strings: TemplateStringsArray, ...slots: Slot[]): Steps<Row | undefined>
  all<Row>(strings: TemplateStringsArray, ...slots: Slot[]): Steps<Row[]>
  /** @returns the number of rows that the statement wrote */
  run(strings: TemplateStringsArray, ...slots: Slot[]): Steps<number>
  /**
   * Locks these names until the transaction ends, for conditions that have no row to lock. If other transactions have a name
   * locked, this one waits for them.
   */
  hold(...names: string[]): Steps<void>
  /** The time for leases and due times, by the clock that all processes share. In ms since 1970. */
  storeNowMs(): Steps<number>
}

export const transactionAt = (nowMs: number): Tx => ({
  nowMs,
  *one<Row>(strings: TemplateStringsArray, ...slots: Slot[]): Steps<Row | undefined> {
    return (yield { does: 'one', strings, slots }) as Row | undefined
  },
  *all<Row>(strings: TemplateStringsArray, ...slots: Slot[]): Steps<Row[]> {
    return (yield { does: 'all', strings, slots }) as Row[]
  },
  *run(strings: TemplateStringsArray, ...slots: Slot[]): Steps<number> {
    return (yield { does: 'run', strings, slots }) as number
  },
  *hold(...names: string[]): Steps<void> {
    yield { does: 'hold', names: names.toSorted() }
  },
  *storeNowMs(): Steps<number> {
    return (yield { does: 'storeNow' }) as number
  },
})

/** The methods of a repository as callers use them. Each runs in a transaction of its own. */
export type CallsOf<Methods> = {
  readonly [M in keyof Methods]: Methods[M] extends (tx: Tx, ...args: infer Args) => Steps<infer T>
    ? (...args: Args) => Promise<T>
    : never
}

/** Reads outside a transaction, with the same templates. */
export interface Reads {
  one<Row>(strings: TemplateStringsArray, ...slots: Slot[]): Promise<Row | undefined>
  all<Row>(strings: TemplateStringsArray, ...slots: Slot[]): Promise<Row[]>
}

export type Dialect = 'sqlite' | 'postgres'

export type Value = string | number | bigint | Uint8Array | null

/** A value that the statement gets as JSON text. */
class Json {
  readonly value: unknown

  constructor(value: unknown) {
    this.value = value
  }
}

/** A slot of a template. It is a value, which becomes a parameter, or a piece of the statement's text. */
export type Slot = Value | Piece

/** A piece of a statement's text, with its parameters. */
export class Piece {
  /** Pieces with the same shape have the same text. */
  readonly shape: string
  readonly textIn: Readonly<Record<Dialect, (parameter: () => string) => string>>
  readonly parameters: readonly (Value | Json)[]

  constructor(shape: string, textIn: Piece['textIn'], parameters: Piece['parameters'] = []) {
    this.shape = shape
    this.textIn = textIn
    this.parameters = parameters
  }
}

/** Text that differs between the databases. */
export const words = (sqlite: string, postgres: string) =>
  new Piece(postgres, { sqlite: () => sqlite, postgres: () => postgres })

/**
 * Locks the rows that a SELECT finds until the transaction ends. The text is empty for SQLite, which has one writer and needs no
 * locks.
 */
export const locked = words('', 'FOR NO KEY UPDATE')
/**
 * Like {@link locked}, but no other transaction can add rows that refer to the locked ones. It is used before a change of a unique
 * column, because PostgreSQL takes this lock for such an UPDATE anyway. If the stronger lock came second, the transaction could
 * deadlock with one that waits for the weaker lock.
 */
export const lockedWithKeys = words('', 'FOR UPDATE')
/** Like {@link locked}, but leaves out rows that another transaction has locked. */
export const free = words('', 'FOR NO KEY UPDATE SKIP LOCKED')

const withParameter = (text: (parameter: string) => string) => (parameter: () => string) => text(parameter())

/** The values of a list, for `IN ${list(ids)}`. A list of any length is one parameter. */
export const list = (values: readonly string[]): Piece =>
  new Piece(
    'list',
    {
      sqlite: withParameter((parameter) => `(SELECT value FROM json_each(${parameter}))`),
      postgres: withParameter((parameter) => `(SELECT jsonb_array_elements_text(${parameter}::jsonb))`),
    },
    [new Json(values)],
  )

/** Like {@link list}, for whole numbers. */
export const numbers = (values: readonly number[]): Piece =>
  new Piece(
    'numbers',
    {
      sqlite: withParameter((parameter) => `(SELECT value FROM json_each(${parameter}))`),
      postgres: withParameter(
        (parameter) => `(SELECT jsonb_array_elements_text(${parameter}::jsonb)::bigint)`,
      ),
    },
    [new Json(values)],
  )

/**
 * A list of records as a table with a name, for `FROM ${table('n', { id: 'text' }, records)}`. A list of any length is one
 * parameter.
 */
export function table(
  name: string,
  columns: Readonly<Record<string, 'text' | 'bigint' | 'smallint'>>,
  records: readonly object[],
): Piece {
  const names = Object.keys(columns)
  const values = names.map((column) => `value ->> '${column}' AS ${column}`)
  const typed = names.map((column) => `${column} ${columns[column]}`)
  return new Piece(
    `${name} ${names.join()}`,
    {
      sqlite: withParameter(
        (parameter) => `(SELECT ${values.join(', ')} FROM json_each(${parameter})) AS ${name}`,
      ),
      postgres: withParameter(
        (parameter) => `jsonb_to_recordset(${parameter}::jsonb) AS ${name} (${typed.join(', ')})`,
      ),
    },
    [new Json(records)],
  )
}

const both = (text: (parameter: () => string) => string) => ({ sqlite: text, postgres: text })

/** Columns and values of one row, for `INSERT INTO stores ${row(columns)}`. */
export function row(columns: Readonly<Record<string, Value>>): Piece {
  const names = Object.keys(columns)
  const text = (parameter: () => string) =>
    `(${names.join(', ')}) VALUES (${names.map(parameter).join(', ')})`
  return new Piece(names.join(), both(text), Object.values(columns))
}

/** The columns that are defined, for `UPDATE stores SET ${assignments(columns)}`. */
export function assignments(columns: Readonly<Record<string, Value | undefined>>): Piece {
  const given = Object.entries(columns).filter((entry): entry is [string, Value] => entry[1] !== undefined)
  const text = (parameter: () => string) => given.map(([name]) => `${name} = ${parameter()}`).join(', ')
  const names = given.map(([name]) => name)
  return new Piece(
    names.join(),
    both(text),
    given.map(([, value]) => value),
  )
}

/** A piece with slots of its own, such as an optional condition. */
export function part(strings: TemplateStringsArray, ...slots: Slot[]): Piece {
  const textIn = (dialect: Dialect) => (parameter: () => string) => textOf(dialect, parameter, strings, slots)
  const shape = `${strings.join('?')}(${slots.map((slot) => (slot instanceof Piece ? slot.shape : '')).join()})`
  const parameters = slots.flatMap((slot) => (slot instanceof Piece ? slot.parameters : [slot]))
  return new Piece(shape, { sqlite: textIn('sqlite'), postgres: textIn('postgres') }, parameters)
}

/** An empty piece, for a part that is absent. */
export const nothing = words('', '')

function textOf(
  dialect: Dialect,
  parameter: () => string,
  strings: TemplateStringsArray,
  slots: readonly Slot[],
): string {
  const texts = slots.map((slot) => (slot instanceof Piece ? slot.textIn[dialect](parameter) : parameter()))
  return strings.map((string, i) => string + (texts[i] ?? '')).join('')
}

export interface PreparedTemplate<Prepared> {
  readonly prepared: Prepared
  readonly parameters: readonly Value[]
}

/**
 * Creates statements from templates. It builds the text of a template once, and then finds it by the identity of the template's
 * strings and the shapes of its pieces.
 *
 * @param prepare creates the statement for a text
 * @param jsonText converts a list to the text that the statement gets
 */
export function createTemplates<Prepared>(
  dialect: Dialect,
  prepare: (text: string) => Prepared,
  jsonText: (value: unknown) => string = JSON.stringify,
): (strings: TemplateStringsArray, slots: readonly Slot[]) => PreparedTemplate<Prepared> {
  const known = new WeakMap<TemplateStringsArray, Map<string, Prepared>>()

  return (strings, slots) => {
    let shape = ''
    const parameters: Value[] = []
    for (const slot of slots) {
      if (!(slot instanceof Piece)) {
        parameters.push(slot)
        continue
      }
      shape += `${slot.shape};`
      for (const one of slot.parameters) parameters.push(one instanceof Json ? jsonText(one.value) : one)
    }
    let shapes = known.get(strings)
    if (shapes === undefined) known.set(strings, (shapes = new Map()))
    let prepared = shapes.get(shape)
    if (prepared === undefined) {
      let count = 0
      const parameter = () => (dialect === 'postgres' ? `$${++count}` : '?')
      shapes.set(shape, (prepared = prepare(textOf(dialect, parameter, strings, slots))))
    }
    return { prepared, parameters }
  }
}

const unlessRenamed = words('', 'FOR SHARE OF s')

/**
 * Makes every process drop these links of a store from its cache. The row commits together with the change. So no other process
 * keeps an old price, even if this process dies after the commit.
 *
 * @param slugs as callers use them; a stealth link has its private slug
 */
export function* noteLinkChange(tx: Tx, storeId: string, slugs: ReadonlySet<string>): Steps<void> {
  const links = [...slugs].map((slug) => ({ slug }))
  yield* tx.run`INSERT INTO changes (kind, username, slug)
    SELECT 'link', s.username, n.slug FROM stores s CROSS JOIN ${table('n', { slug: 'text' }, links)}
    WHERE s.id = ${storeId} ${unlessRenamed}`
}

/** Like {@link noteLinkChange}, for all links and redirects of the stores with these usernames. */
export function* noteStoreChange(tx: Tx, ...usernames: string[]): Steps<void> {
  const stores = usernames.map((username) => ({ username }))
  yield* tx.run`INSERT INTO changes (kind, username)
    SELECT 'store', n.username FROM ${table('n', { username: 'text' }, stores)}`
}
