/** A table that becomes a list of cards where the columns do not fit. */
import type { ComponentChildren } from 'preact'
import { ScrollArea } from './scroll-area.js'
import { classes } from './tone.js'

export interface Column<Row> {
  readonly head: string
  readonly cell: (row: Row) => ComponentChildren
  /** Aligns right, with tabular digits. */
  readonly isNumber?: boolean | undefined
  /** Marks the row header, which is also the heading of the card. */
  readonly isMain?: boolean | undefined
  /** Shows the heading to screen readers only, for a column of buttons. */
  readonly isHeadHidden?: boolean | undefined
}

interface TableProps<Row> {
  /** Accessible name; visible only with `isCaptionShown`. */
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly rowKey: (row: Row) => string
  /** Replaces the table when there are no rows. */
  readonly empty?: ComponentChildren
  readonly isCaptionShown?: boolean | undefined
}

// Explicit roles: browsers drop the table semantics of elements that are displayed as cards.
export function Table<Row>(props: TableProps<Row>) {
  const { caption, columns, rows, rowKey, empty, isCaptionShown = false } = props
  if (rows.length === 0 && empty !== undefined) return <>{empty}</>
  return (
    <ScrollArea label={caption} hasCards>
      <table class="table" role="table">
        <caption class={isCaptionShown ? undefined : 'visually-hidden'}>{caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column) => (
              <th
                key={column.head}
                role="columnheader"
                scope="col"
                class={classes(column.isNumber && 'number')}
              >
                <span class={column.isHeadHidden === true ? 'visually-hidden' : undefined}>
                  {column.head}
                </span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={rowKey(row)} role="row">
              {columns.map((column) => (
                <Cell key={column.head} column={column} row={row} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollArea>
  )
}

function Cell<Row>({ column, row }: { readonly column: Column<Row>; readonly row: Row }) {
  const name = classes(
    column.isNumber && 'number',
    column.isMain && 'main',
    column.isHeadHidden && 'bare',
  )
  const cell = column.cell(row)
  return column.isMain === true ? (
    <th role="rowheader" scope="row" class={name} data-head={column.head}>
      {cell}
    </th>
  ) : (
    <td role="cell" class={name} data-head={column.head}>
      {cell}
    </td>
  )
}
